#!/usr/bin/env bash
# What the trained models in models/ learned from: one terminology of open vocabularies that may be given on, in English
# or in several languages (en,it,de,fr,es,nl,pt,zh,ja,cs,tr). Sources that are share-alike, without a licence or for
# measuring only are left out by runs/open_vocabularies.py, which says what licence each has.
#
#   runs/open_knowledge.sh FOLDER [OUTPUT [LANGUAGES]]        OUTPUT is open.terminology by default, LANGUAGES en
#
# FOLDER has, in open_graph, tab-separated, each gzipped (.gz) or not:
#
#   terms.tsv          id, lang, term, type (pref, syn, ...), status (OFFICIAL, CANDIDATE, CANDIDATE/MT), source
#   definitions.tsv    id, lang, definition, source
#   relations.tsv      head, relation, tail, source; exact_match says what is one concept
#
# ICD-10-CM comes from its package; its alphabetical index and the everyday phrases from models/alphita-names. Beside
# OUTPUT is written OUTPUT.sources.tsv: each source with its version, its licence and the rows taken of it; ICD-10-CM's
# own are in OUTPUT's manifest.
set -euo pipefail

data=${1:?usage: runs/open_knowledge.sh FOLDER [OUTPUT [LANGUAGES]]}
output=${2:-open.terminology}
output=${output%/}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

terms=$(input open_graph/terms.tsv)
definitions=$(input open_graph/definitions.tsv)
relations=$(input open_graph/relations.tsv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$here/open_vocabularies.py" knowledge "$terms" "$relations" "$definitions" -o "$work" \
    --languages "${3:-en}"
$alphita terminology import table "$work/terms.tsv" "$work/definitions.tsv" "$work/relations.tsv" "$work/lay.terms.tsv" \
    --set quote= -o "$work/read.terminology"
$alphita terminology subset "$work/read.terminology" --no-retired -o "$work/graph.terminology"
$alphita terminology import icd10cm icd10cm --packaged -o "$work/icd10cm.terminology"
$alphita terminology import table "$work/index.terms.tsv" --set quote= -o "$work/index.terminology"
$alphita terminology merge "$work/graph.terminology" "$work/icd10cm.terminology" "$work/index.terminology" \
    --mappings "$work/exact.sssom.tsv" -o "$output" --force
cp "$work/sources.tsv" "$output.sources.tsv"
