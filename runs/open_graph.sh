#!/usr/bin/env bash
# One graph of many open vocabularies, for which no licence is needed: graph.terminology, in English, from tables in
# which each concept is told by its id in its own vocabulary.
#
#   runs/open_graph.sh FOLDER [OUTPUT]        OUTPUT is graph.terminology by default
#
# FOLDER has, tab-separated, each gzipped (.gz) or not:
#
#   terms.tsv          id, lang, term, type (pref, syn, syn_broad, syn_narrow, syn_related), status (OFFICIAL,
#                      CANDIDATE, CANDIDATE/MT), source
#   definitions.tsv    id, lang, definition, source
#   relations.tsv      head, relation, tail, source; exact_match says what is one concept
#
# What was joined and what was refused is told in OUTPUT.joined.tsv and OUTPUT.conflicts.tsv.
set -euo pipefail

data=${1:?usage: runs/open_graph.sh FOLDER [OUTPUT]}
output=${2:-graph.terminology}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

terms=$(input terms.tsv)
definitions=$(input definitions.tsv)
relations=$(input relations.tsv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$here/open_vocabularies.py" graph "$terms" "$relations" --definitions "$definitions" -o "$work"
$alphita terminology import table "$work/terms.tsv" "$work/definitions.tsv" "$work/relations.tsv" --set quote= \
    -o "$work/read.terminology"
$alphita terminology subset "$work/read.terminology" --language en --no-retired -o "$work/en.terminology"
$alphita terminology merge "$work/en.terminology" --mappings "$work/exact.sssom.tsv" -o "$output" --force
