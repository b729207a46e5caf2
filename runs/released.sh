#!/usr/bin/env bash
# Encoders as their authors released them, and ours, on every benchmark whose files you have -> one report, with the
# numbers that the papers print beside.
#
#   runs/released.sh DATA OUTPUT
#
# DATA     the benchmarks' files, a folder for each; `alphita evaluate --about NAME` says where to get them, and what has
#          no folder is "not run"
# OUTPUT   the report: report.html, report.md, report.json, and the rows behind it
#
# By environment:
#
#   MODELS=FOLDER         holds copies of the hub's models, as FOLDER/OWNER/NAME, for a machine without a network; what is
#                         not there is fetched from the hub, and what cannot be had is "not scored", with its reason
#   TERMINOLOGY=X         a terminology, for the benchmarks that need one: UMLS as runs/coder_eng_umls.sh imports it
#   OURS="NAME ..."       encoders of ours; alphita-en and alphita-multi by default
#   FINE_TUNED=1          also the tasks that fine-tune each encoder five times, which want a GPU
#   SETTINGS="KEY=VALUE"  options of the benchmarks
#   DEVICE=               cpu, cuda or cuda:N
#
# CODER's released code reads the vector off BERT's pooler, with padding attended (legacy_coder); its papers' tables have
# [CLS] and the mean of the tokens. All models together take some 8 GB of memory.
set -euo pipefail

data=${1:?usage: runs/released.sh DATA OUTPUT}
output=${2:?usage: runs/released.sh DATA OUTPUT}
alphita=${ALPHITA:-alphita}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=runs/_data.bash
source "$here/_data.bash"
[ -d "$data" ] || { echo "error: there is no folder $data" >&2; exit 2; }

systems=()
# $1: a hub name; the others: poolings; none: its own.
released() {
    local name=$1 place=$1 pooling
    shift
    if [ -n "${MODELS:-}" ] && [ -d "$MODELS/$name" ]; then place=$MODELS/$name; fi
    if [ $# -eq 0 ]; then systems+=(--model "$place,name=$(basename "$name")"); fi
    for pooling in "$@"; do
        systems+=(--model "$place,pooling=$pooling,name=$(basename "$name") $pooling")
    done
}
released GanjinZero/coder_eng cls mean legacy_coder
released GanjinZero/coder_all cls mean legacy_coder
released cambridgeltl/SapBERT-from-PubMedBERT-fulltext cls mean
released FremyCompany/BioLORD-2023
released FremyCompany/BioLORD-2023-C
released FremyCompany/BioLORD-2023-S
released FremyCompany/BioLORD-2023-M
released microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract cls mean
for name in ${OURS-alphita-en alphita-multi}; do systems+=(--model "$name"); done

how=()
if [ -n "${TERMINOLOGY:-}" ]; then how+=(--terminology "$TERMINOLOGY"); fi
if [ -z "${FINE_TUNED:-}" ]; then
    for task in ner sentence_pair classification answer_ranking retrieval; do how+=(--skip "$task"); done
fi
for setting in ${SETTINGS:-}; do how+=(--set "$setting"); done
$alphita evaluate --check "${systems[@]}"
$alphita evaluate all "${systems[@]}" --data "$data" ${how[@]+"${how[@]}"} -o "$output" --force
