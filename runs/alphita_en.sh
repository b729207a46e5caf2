#!/usr/bin/env bash
# The model that comes with Alphita, models/alphita-en: MiniLM, taught on open vocabularies the mean vector of models that
# learned them, in int8, with the general calibration that every index of it uses until `alphita calibrate` fits its own.
# models/alphita-en-fp16 holds the same weights for training.
#
#   runs/alphita_en.sh FOLDER TEACHERS OUTPUT [SPLIT [STEPS]]
#
# FOLDER     has open_graph/ as runs/open_knowledge.sh wants it; bench/general_calibration.py says which sources are
#            calibrated on
# TEACHERS   the models whose mean is learnt, MODEL,MODEL: what runs/gpu/alphita.sh leaves
# SPLIT      strings to score by, that must not train (`alphita terminology split`)
# STEPS      of 512 strings; 3,000 by default, which are about 80 minutes of two cores
#
# The teachers' vectors take half an hour before, the calibration 40 minutes after. More threads for the small products of
# the ranker's fitting make it slower, not faster.
set -euo pipefail

usage="usage: runs/alphita_en.sh FOLDER TEACHERS OUTPUT [SPLIT [STEPS]]"
data=${1:?$usage}
teachers=${2:?$usage}
output=${3:?$usage}
split=${4:-}
steps=${5:-3000}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

terms=$(input open_graph/terms.tsv)
relations=$(input open_graph/relations.tsv)
work=$output.work
kept_out=()
if [ -n "$split" ]; then kept_out=(--split "$split"); fi
mkdir -p "$work"
"$here/open_knowledge.sh" "$data" "$work/open.terminology"
$alphita train ensemble --terminology "$work/open.terminology" --encoder minilm -o "$work/student" --resume \
    ${kept_out[@]+"${kept_out[@]}"} --set teachers="$teachers" --set steps="$steps" --set checkpoint_every=100
"$python" "$here/../bench/default_model.py" "$work/student" -o "$output" --terminology "$work/open.terminology" \
    ${kept_out[@]+"${kept_out[@]}"}
OPENBLAS_NUM_THREADS=1 "$python" "$here/../bench/general_calibration.py" "$output" "$terms" "$relations" \
    --work "$work/vocabularies"
# It answers: an index keeps the model and its calibration.
$alphita index hpo --model "$output" -o "$work/hpo.index" --force
echo "hart attack" | $alphita normalize - --to "$work/hpo.index" --format jsonl -o -
