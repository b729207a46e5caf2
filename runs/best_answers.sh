#!/usr/bin/env bash
# What each part that an index is given brings, on open data: docs/results/best_answers.json and the tables of docs/results/answers.md.
#
#   runs/best_answers.sh FOLDER OUTPUT
#
# FOLDER has, gzipped (.gz) or not, open_graph/terms.tsv (see runs/shipped_models.sh), benchmarks/clinvar_traits/traits.tsv
# (trait, concept_id, label, kind), and the folders benchmarks/ncbi_disease and benchmarks/psytar as published. HPO and
# ICD-10-CM come from their packages. On two cores it takes half an hour.
set -euo pipefail

data=${1:?usage: runs/best_answers.sh FOLDER OUTPUT}
output=${2:?usage: runs/best_answers.sh FOLDER OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$output"
"$python" "$here/best_answers.py" "sample:$here/../examples/messy_terms.csv" held_out:hpo held_out:icd10cm clinvar \
    --data "$data" -o "$output/best_answers.json"
for benchmark in ncbi_disease psytar; do
    $alphita evaluate "$benchmark" --data "$data/benchmarks" -o "$output/$benchmark" \
        -m normalizer:alphita-en -m normalizer:alphita-en,borrow=false -m normalizer:alphita-en,learn=no \
        -m normalizer:alphita-en,borrow=false,learn=no
done
