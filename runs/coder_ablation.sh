#!/usr/bin/env bash
# The ablations of both CODER papers on a graph of open ontologies: which loss, which relation matrix, [CLS] or mean,
# and SapBERT and CODER++ beside; each row with three seeds -> OUTPUT/table.md and OUTPUT/table.json.
#
#   runs/coder_ablation.sh OPEN.terminology OUTPUT
#
# OPEN.terminology   made by runs/open_metathesaurus.sh
# OUTPUT             a folder; what is finished in it is not done again, so the same command goes on with a cut run
#
# By environment, with what is taken without them:
#
#   ROWS=            names with commas between; all. `python runs/coder.py rows` lists them
#   SEEDS=0,1,2      the outer loop: seed 0 of every row comes first
#   STEPS=1000       optimiser steps of every row, a tenth of them warm-up
#   ENCODER=minilm   what all rows start from
#   M=2              times a triple stands in a batch of the recipe coder (the papers: 8, of 8 batches a step)
#   LEARNING_RATE=1e-4    of every row; chosen on other synonyms: docs/results/log.md
#   DATA=            the benchmarks' files: psytar, ncbi_disease, hpo_gsc_plus, bc5cdr; without it they are left out
#   BENCHMARKS=      what is scored, with commas between; all there are data for
#   KEEP_MODELS=     yes: the models stay (90 MB each)
#
# A row that fails is told, the others go on, and the exit status is 1. The English part of the graph is trained on and
# tested: one synonym of a tenth of the concepts that have several, and the triples of a tenth of the related concepts,
# are held out. HPO's main branches are the semantic types (MCSM, STY).
set -euo pipefail

open=${1:?usage: runs/coder_ablation.sh OPEN.terminology OUTPUT}
output=${2:?usage: runs/coder_ablation.sh OPEN.terminology OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
[ -d "$open" ] || { echo "error: there is no $open; make it with runs/open_metathesaurus.sh" >&2; exit 2; }
mkdir -p "$output"

# Each of these appears whole or not at all, so what is there is finished.
typed="$output/hpo.terminology"
graph="$output/open.terminology"
english="$output/en.terminology"
split="$output/en.split"
if [ ! -e "$typed" ]; then
    $alphita terminology import obo hpo --packaged --set semantic_type=HP:0000118 -o "$typed"
fi
if [ ! -e "$graph" ]; then
    # HPO first, for its semantic types; everything else comes with the open graph.
    $alphita terminology merge "$typed" "$open" -o "$graph"
fi
if [ ! -e "$english" ]; then
    $alphita terminology subset "$graph" --language en --no-retired -o "$english"
fi
if [ ! -e "$split" ]; then
    $alphita terminology split "$english" --fraction 0.1 --triples 0.1 --seed 42 -o "$split"
fi

options=()
if [ -n "${DATA:-}" ]; then options+=(--data "$DATA"); fi
if [ -n "${KEEP_MODELS:-}" ]; then options+=(--keep-models); fi
exec "$python" "$here/coder.py" run --terminology "$english" --split "$split" --output "$output" \
    --rows "${ROWS:-}" --seeds "${SEEDS:-0,1,2}" --steps "${STEPS:-1000}" --m "${M:-2}" \
    --learning-rate "${LEARNING_RATE:-1e-4}" --encoder "${ENCODER:-minilm}" \
    --benchmarks "${BENCHMARKS:-}" ${options[@]+"${options[@]}"}
