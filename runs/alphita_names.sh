#!/usr/bin/env bash
# The table of names that comes with Alphita, models/alphita-names: what open vocabularies call the same thing.
#
#   runs/alphita_names.sh FOLDER OUTPUT
#
# FOLDER has, each gzipped (.gz) or not:
#
#   open_graph/terms.tsv        id, lang, term, type (pref, syn, ...), status (OFFICIAL, ...), source
#   open_graph/relations.tsv    head, relation, tail, source
#   icd10cm/Index.csv           the alphabetical index of ICD-10-CM: Level, Term, Code
#
# Everyday phrases (lay.tsv), short forms (short_forms.tsv) and what is not to be lent (unlent.tsv) are written by hand,
# and lie in models/alphita-names; runs/open_vocabularies.py says which sources are taken, and HPO comes from its
# package. It takes seconds.
set -euo pipefail

data=${1:?usage: runs/alphita_names.sh FOLDER OUTPUT}
output=${2:?usage: runs/alphita_names.sh FOLDER OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
lists=$here/../models/alphita-names

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

terms=$(input open_graph/terms.tsv)
relations=$(input open_graph/relations.tsv)
index=$(input icd10cm/Index.csv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$alphita terminology import obo hpo --packaged -o "$work/hpo.terminology"
"$python" "$here/open_vocabularies.py" names "$terms" "$relations" --hpo "$work/hpo.terminology" --icd10cm "$index" --lay "$lists/lay.tsv" \
    --unlent "$lists/unlent.tsv" --short "$lists/short_forms.tsv" --card "$lists/README.md" -o "$output"
