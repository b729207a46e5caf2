#!/usr/bin/env bash
# Which encoder to take: ours and what they were trained from, by cosine alone, over the benchmarks -> docs/models.md, and
# all tables of the report -> docs/results/models.json; how fast they encode -> docs/results/models_speed.json.
#
#   runs/models.sh DATA E5 [OUTPUT [MPNET]]
#
# DATA      holds benchmarks/ (the benchmarks' files; `alphita evaluate --about NAME` says where to get them)
# E5        the folder of multilingual-e5-small, or its name on the hub
# OUTPUT    where the report goes; model-reports by default
# MPNET     the folder of all-mpnet-base-v2, or its name on the hub: five times the size, it takes an hour more on two cores
set -euo pipefail

usage="usage: runs/models.sh DATA E5 [OUTPUT [MPNET]]"
data=${1:?$usage}
e5=${2:?$usage}
output=${3:-model-reports}
mpnet=()
if [ -n "${4:-}" ]; then mpnet=(--model "$4,name=all-mpnet"); fi
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$output"

# The synonyms that the trained ones did not learn: those that the quickstart's training holds out.
$alphita terminology import obo hpo --packaged -o "$output/hpo.terminology" --force
$alphita terminology split "$output/hpo.terminology" --fraction 0.3 --seed 42 -o "$output/hpo.split" --force
$alphita evaluate ncbi_disease psytar hpo_gsc_plus mantra relatedness sts held_out_synonyms \
    --model minilm --model alphita-en --model "$e5,prefix=query:,name=e5-small" --model alphita-multi \
    ${mpnet[@]+"${mpnet[@]}"} --baseline tfidf --data "$data/benchmarks" --terminology "$output/hpo.terminology" \
    --set held_out_synonyms.split="$output/hpo.split" -o "$output/report" --force
"$python" "$here/../bench/encode.py" --encoder minilm alphita-en "$e5" alphita-multi ${4:+"$4"} --rounds 3 --limit 4000 \
    --out "$here/../docs/results/models_speed.json"

# Names for what lies elsewhere on every machine.
names=(-e "s#$e5#E5#g" -e "s#$data#DATA#g" -e "s#$output/##g" -e "s#$here/../##g")
if [ -n "${4:-}" ]; then names+=(-e "s#$4#MPNET#g"); fi
sed -i "${names[@]}" "$here/../docs/results/models_speed.json"
{
    sed -n '/^## Summary/,/^### Not run/p' "$output/report/report.md" | sed '1d;$d' | sed 's/^###/##/' | sed "${names[@]}"
} > "$output/tables.md"
"$python" "$here/report_tables.py" "Encoders=$output/tables.md" --out "$here/../docs/results/models.json"
page=$here/../docs/models.md
{
    # What the page says above its figures stays; of the report it has the summary.
    sed '/^<!-- figures -->$/q' "$page"
    echo
    sed -n '/^## Normalization/,/^## [^NS]/p' "$output/tables.md" | sed '$d'
} > "$output/models.md"
cp "$output/models.md" "$page"
echo "written: docs/models.md; the report is in $output/report"
