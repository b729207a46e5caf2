#!/usr/bin/env bash
# Table 4 of Liu, Jiang and Lyu (2022) on open data, for which no licence is needed: ELECTRA pre-trained from scratch on
# Chinese medical text with and without entity masking (EM), and fine-tuned on ChineseBLUE's tasks.
#
#   runs/electra_chinese_open.sh DATA OUTPUT
#
# DATA      a folder with
#             benchmarks/chineseblue/         its files (docs/reference/benchmarks.md), gzipped or not; the training files'
#                                             texts, without their labels, are also the text that is pre-trained on
#             ontologies/hpo_translations/    hp-zh.babelon.tsv, gzipped or not: the entities' Chinese names
# OUTPUT    a folder; what is finished in it is not done again, so the same command goes on with a cut run.
#           OUTPUT/table.md has every row and seed that is there
#
# By environment, with what is taken without them, which is small:
#
#   ROWS='base em'          base: ELECTRA; em: ELECTRA+EM
#   SEEDS=0                 of the pre-training: SEEDS='0 1 2'; five runs of fine-tuning each
#   STEPS=12000             of batch 16; a tenth of them is warm-up
#   TRAIN='layers=4 hidden=128 heads=4 max_length=64 vocabulary=8000 learning_rate=5e-4'   settings of the pre-training
#   TUNE='max_length=64 learning_rate=5e-4'    settings of every fine-tuning (`alphita evaluate --about ner`)
#   TASKS='ner sentence_pair classification answer_ranking retrieval'
#   THREADS=                of training and scoring; all cores
#
# There is no text of cMedQA and cMedIR to train on but what is scored: of their one part, four fifths of the queries
# train (split_dev). The other tasks are scored on their dev part, for the test part is not in the open data. The
# paper's text, 10 G tokens, is not public; its numbers stand in runs/electra_em_pap_paper.sh.
set -euo pipefail

data=${1:?usage: runs/electra_chinese_open.sh DATA OUTPUT}
output=${2:?usage: runs/electra_chinese_open.sh DATA OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
rows=${ROWS:-base em}
seeds=${SEEDS:-0}
steps=${STEPS:-12000}
tasks=${TASKS:-ner sentence_pair classification answer_ranking retrieval}
train=${TRAIN-layers=4 hidden=128 heads=4 max_length=64 vocabulary=8000 learning_rate=5e-4}
tune=${TUNE-max_length=64 learning_rate=5e-4}
blue="$data/benchmarks/chineseblue"

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

# Everything is looked for before the first hour of work.
names=$(input ontologies/hpo_translations/hp-zh.babelon.tsv)
[ -d "$blue" ] || { echo "error: there is no folder $blue" >&2; exit 2; }
for row in $rows; do
    case $row in
    base | em) ;;
    *)
        echo "error: ROWS is of base and em, not $row" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$output"
threads=()
if [ -n "${THREADS:-}" ]; then threads=(--threads "$THREADS"); fi

# It refuses a folder that was begun with other data or settings.
"$python" "$here/chineseblue.py" text "$blue" -o "$output" --set steps="$steps" --set tasks="$tasks" \
    --set train="$train" --set tune="$tune"

# Each of these appears whole or not at all, so what is there is finished.
terms="$output/hpo.terminology"
terminology="$output/hpo_zh.terminology"
if [ ! -e "$terms" ]; then
    $alphita terminology import obo hpo --packaged -o "$terms"
fi
if [ ! -e "$terminology" ]; then
    $alphita terminology import babelon "$names" --onto "$terms" -o "$terminology"
fi

tuning=()
for task in $tasks; do
    for setting in $tune; do tuning+=(--set "$task.$setting"); done
    case $task in answer_ranking | retrieval) tuning+=(--set "$task.split_dev=true") ;; esac
done
for seed in $seeds; do
    for row in $rows; do
        model="$output/$row/$seed"
        settings=(--set corpus="$output/text.jsonl" --set languages=zh --set rho=0 --set steps="$steps"
            --set warmup_steps=$((steps / 10)) --set dev_sequences=200 --set evaluate_every=$((steps / 20 + 1))
            --set seed="$seed")
        case $row in
        base) settings+=(--set entities=false --set segmenter=none) ;;
        em) settings+=(--set segmenter=jieba) ;;
        esac
        for setting in $train; do settings+=(--set "$setting"); done
        if [ ! -e "$model" ]; then
            mkdir -p "$output/$row"
            $alphita train electra_em_pap --terminology "$terminology" --output "$model" --resume "${settings[@]}" \
                ${threads[@]+"${threads[@]}"}
        fi
        if [ ! -e "$model.report" ]; then
            # shellcheck disable=SC2086 # tasks are words
            $alphita evaluate $tasks --model "$model,name=model" --data "$blue" --output "$model.report" \
                "${tuning[@]}" ${threads[@]+"${threads[@]}"}
        fi
        "$python" "$here/chineseblue.py" table "$output"
    done
done
echo "the table is $output/table.md"
