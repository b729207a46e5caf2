#!/usr/bin/env bash
# The models that come with Alphita, models/alphita-en and models/alphita-multi: the trained weights that lie beside them
# in half precision, in int8, each with the general calibration that every index of it uses until `alphita calibrate`
# fits its own.
#
#   runs/shipped_models.sh FOLDER OUTPUT
#
# FOLDER has, in open_graph, tab-separated, each gzipped (.gz) or not:
#
#   terms.tsv          id, lang, term, type (pref, syn, syn_broad, syn_narrow, syn_related), status (OFFICIAL,
#                      CANDIDATE, CANDIDATE/MT), source
#   relations.tsv      head, relation, tail, source
#
# runs/general_calibration.py says which sources are taken; HPO and ICD-10-CM come from their packages. On two cores it
# takes about an hour; more threads for the small products of the ranker's fitting make it slower, not faster.
set -euo pipefail

data=${1:?usage: runs/shipped_models.sh FOLDER OUTPUT}
output=${2:?usage: runs/shipped_models.sh FOLDER OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

terms=$(input open_graph/terms.tsv)
relations=$(input open_graph/relations.tsv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$output"
for name in alphita-en alphita-multi; do
    languages=()
    if [ "$name" = alphita-multi ]; then languages=(--languages it de fr es --small); fi
    "$python" "$here/default_model.py" "$here/../models/$name-fp16" -o "$output/$name"
    OPENBLAS_NUM_THREADS=1 "$python" "$here/general_calibration.py" "$output/$name" "$terms" "$relations" \
        --work "$work/$name" ${languages[@]+"${languages[@]}"}
    # It answers: an index keeps the model and its calibration.
    $alphita index hpo --model "$output/$name" -o "$work/$name.index"
    echo "hart attack" | $alphita normalize - --to "$work/$name.index" --format jsonl -o -
done
