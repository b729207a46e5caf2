#!/usr/bin/env bash
# Every benchmark whose data you have -> docs/results/benchmarks.md and .json, for the model that `alphita quickstart --train` makes, MiniLM as it
# comes, TF-IDF and BM25. Some 20 minutes on two cores.
#
#   runs/benchmarks.sh DATA QUICKSTART [OUTPUT]
#
# DATA         holds benchmarks/ (the benchmarks' files; `alphita evaluate --about NAME` says where to get them) and
#              ontologies/ (what runs/open_metathesaurus.sh joins)
# QUICKSTART   the folder that `alphita quickstart --train` made: its model and its held-out split
# OUTPUT       where the reports go; benchmark-reports by default
#
# The fine-tuned tasks are left out but for one run on one set, cMedIC: five runs of each set want a GPU.
set -euo pipefail

data=${1:?usage: runs/benchmarks.sh DATA QUICKSTART [OUTPUT]}
quickstart=${2:?usage: runs/benchmarks.sh DATA QUICKSTART [OUTPUT]}
output=${3:-benchmark-reports}
alphita=${ALPHITA:-alphita}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$output"

systems=(--model "$quickstart/model,name=coder-hpo" --model minilm --baseline tfidf --baseline bm25)
# HPO with its main branches as semantic types, which MCSM needs.
$alphita terminology import obo hpo --packaged --set semantic_type=HP:0000118 -o "$output/hpo.terminology" --force
$alphita terminology import icd10cm icd10cm --packaged -o "$output/icd10cm.terminology" --force
SKIP='doid_2016*' ALPHITA=$alphita "$here/open_metathesaurus.sh" "$data/ontologies" "$output/open.terminology"

$alphita evaluate all "${systems[@]}" --data "$data/benchmarks" --terminology "$output/hpo.terminology" \
    --skip held_out_translations --skip relation_classification --skip link_prediction --skip case_table \
    --skip ner --skip sentence_pair --skip classification --skip answer_ranking --skip retrieval \
    --set held_out_synonyms.split="$quickstart/held_out.split" \
    --set bc5cdr.part=dev -o "$output/benchmarks" --force
$alphita evaluate held_out_translations relation_classification link_prediction case_table "${systems[@]}" \
    --terminology "$output/open.terminology" --set held_out_translations.language=it \
    --set held_out_translations.target_language=en --set relation_classification.triples=terminology \
    --set link_prediction.max_test=2000 --set case_table.languages=en,it,es,de --set case_table.number=5 \
    -o "$output/open" --force
$alphita evaluate synonym_similarity "${systems[@]}" --terminology "$output/icd10cm.terminology" --pictures \
    -o "$output/icd10cm" --force
$alphita evaluate classification "${systems[@]:0:4}" --data "$data/benchmarks" \
    --set datasets=cMedIC --set runs=1 -o "$output/fine_tuned" --force

docs=$here/../docs
cp "$output/icd10cm/by_concept.png" "$docs/images/icd10cm_by_concept.png"
cp "$output/icd10cm/by_type.png" "$docs/images/icd10cm_by_type.png"
"${PYTHON:-python3}" "$here/report_tables.py" "Benchmarks' own data, and HPO=$output/benchmarks/report.md" \
    "On the graph of open ontologies=$output/open/report.md" "On ICD-10-CM=$output/icd10cm/report.md" \
    "Fine-tuned, one run=$output/fine_tuned/report.md" --out "$docs/results/benchmarks.json"
page=$docs/results/benchmarks.md
{
    # What the page says above its figures stays; of each report it has the summary.
    sed '/^<div data-tables/q' "$page"
    for part in benchmarks open icd10cm fine_tuned; do
        case $part in
            benchmarks) printf "\n## Benchmarks' own data, and HPO\n\n" ;;
            open) printf "\n## On the graph of open ontologies\n\n" ;;
            icd10cm) printf "\n## On ICD-10-CM\n\n" ;;
            fine_tuned) printf "\n## Fine-tuned, one run\n\n" ;;
        esac
        sed -n '/^## Summary/,/^\(### Not run\|## [^S]\)/p' "$output/$part/report.md" | sed '1d;$d'
    done
    printf "\n![Terms of ICD-10-CM by concept](../images/icd10cm_by_concept.png)\n"
    printf "\n![Concepts of ICD-10-CM by chapter](../images/icd10cm_by_type.png)\n"
} > "$output/benchmarks.md"
cp "$output/benchmarks.md" "$page"
echo "written: docs/results/benchmarks.md and .json; the reports are in $output"
