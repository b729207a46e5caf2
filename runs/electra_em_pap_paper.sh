#!/usr/bin/env bash
# ELECTRA with entity masking and product attribute prediction as Liu, Jiang and Lyu (2022) pre-train it: base size,
# from scratch, on one's own table of products and one's own text, for theirs are not public.
#
#   runs/electra_em_pap_paper.sh PRODUCTS CORPUS OUTPUT
#
# PRODUCTS  a table of title, attribute_name, attribute_values (`alphita terminology import products`)
# CORPUS    a folder with *.txt or *.jsonl (field "text"), gzipped or not; the paper's: Wikipedia 0.4 G tokens, news
#           2 G, package inserts 0.9 M, a medical encyclopedia 1 M, community questions and answers 8 G, all Chinese
# OUTPUT    a folder; the same command goes on with a run that was cut
#
# By environment, with what is taken without them:
#
#   TITLES_IN=zh            language of titles and values;  SEGMENTER=jieba  or words, where a text has spaces
#   ATTRIBUTES=             that train and are asked for, "indication ingredient"; all (the paper has two)
#   IMPORT= TRAIN= QTREL=   settings of the import, of every pre-training, of every fine-tuning: "key=value ..."
#   ROWS=base_128,em_128,em_pap     for figure 2, and for gamma, rho_1,rho_10,rho_15,gamma_2,gamma_6,gamma_8 after
#                           these, into the same OUTPUT: tables have all rows that are there
#   SEEDS=0                 the outer loop
#   ENTITIES=               a terminology whose names are masked whole; without it those of PRODUCTS are, which PAP
#                           learns too, so that EM and PAP are not told apart. A tagger's names are imported as a table
#   RELEASED=               1: what the released scripts have where they differ from the text: 85% of what is masked as
#                           [MASK], a generator of a quarter, negatives of any attribute, and a rate that stays at its
#                           peak, for their 420M and 3200M steps end the decay never
#   BASELINES=              beside the rows, by default Google's Chinese BERT and HFL's Chinese ELECTRA, both of base
#                           size; one that cannot be had is "not scored"
#   DEVICE= GPUS=1          cpu, cuda or cuda:N; GPUs of this machine
#   CHINESEBLUE=            the folder of its files, for table 4; left out without it
#   THREADS=                of training and scoring; all cores
#   DRY_RUN=                1: only import and say what each training takes in time and memory
#
# Settings are the recipe's own, which are the paper's (section 4.2.1): 12 layers, 768 wide, 12 heads, generator a
# third; 128 tokens, learning rate 2e-4, warm-up 10,000 steps. Without PAP 420K steps of batch 128, with it 3400K of
# batch 16 (printed: "420M" and "3400M"), of which 5% are PAP, margin 4. Vocabulary 21,128, trained on the corpus. The
# paper's ELECTRA-Base is a released one (Chinese-ELECTRA); base_128 is one pre-trained here as EM is.
#
# The numbers to match, average/maximum of five runs of fine-tuning. Table 4, F1 but for cMedIR (PAIR score):
#
#                   cEHRNER      cMedQANER    cMedQQ       cMedQA
#   BERT-Base       90.19/90.50  85.05/85.29  87.06/87.43  96.03/96.09
#   ELECTRA-Base    91.63/92.17  86.37/86.81  87.27/87.46  95.60/95.90
#   ELECTRA+EM      92.10/92.85  88.18/88.53  87.56/87.89  96.55/96.78
#
#                   cMedQNLI     cMedIR       cMedIC       cMedTC
#   BERT-Base       96.05/96.11  3.03/3.07    92.43/92.89  82.99/83.78
#   ELECTRA-Base    95.42/95.55  3.41/3.49    90.61/92.31  83.43/83.78
#   ELECTRA+EM      96.66/96.78  3.64/3.71    92.48/93.26  83.73/84.00
#
# Table 5, F1. QTRel here is made of PRODUCTS (runs/qtrel.py), and the triples that its test parts ask for are held out
# of the pre-training; QIC (22 intents) and QNER (28 types) need files of one's own (docs/reference/benchmarks.md).
#
#                   QTRel-easy   QTRel-hard   QIC          QNER
#   ELECTRA-Base    98.20/98.51  81.90/82.80  81.37/82.06  82.53/82.78
#   ELECTRA+EM      98.44/98.66  82.90/83.46  86.58/87.11  88.03/88.35
#   ELECTRA+EM+PAP  98.67/98.95  84.88/85.86  86.90/87.26  88.28/88.72
#   without PAP     -0.23        -1.98        -0.32        -0.25
#
# Table 6, the probability of QTRel-hard that a title fits the query "tympanitis", base / EM+PAP: cefixime tablets (+)
# 0.62 / 0.88, azithromycin tablets (+) 0.49 / 0.87, mosapride citrate capsules (-) 0.93 / 0.42.
#
# Figure 2 has rho 1, 5, 10, 15% at gamma 4 as curves, without numbers: 5% is the best. Of gamma 2, 4, 6, 8 it is 4, and
# results depend on it less.
set -euo pipefail

products=${1:?usage: runs/electra_em_pap_paper.sh PRODUCTS CORPUS OUTPUT}
folder=${2:?usage: runs/electra_em_pap_paper.sh PRODUCTS CORPUS OUTPUT}
output=${3:?usage: runs/electra_em_pap_paper.sh PRODUCTS CORPUS OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=runs/_data.bash
source "$here/_data.bash"
language=${TITLES_IN:-zh}
seeds=${SEEDS:-0}
[ -e "$products" ] || { echo "error: there is no $products" >&2; exit 2; }
[ -d "$folder" ] || { echo "error: there is no folder $folder" >&2; exit 2; }
documents "$folder"
corpus=()
for file in "${found[@]}"; do corpus+=(--corpus "$file"); done
if [ -n "${ENTITIES:-}" ] && [ ! -d "$ENTITIES" ]; then
    echo "error: there is no $ENTITIES" >&2
    exit 2
fi
if [ -n "${CHINESEBLUE:-}" ] && [ ! -d "$CHINESEBLUE" ]; then
    echo "error: there is no folder $CHINESEBLUE" >&2
    exit 2
fi
mkdir -p "$output"

# It appears whole or not at all, so what is there is finished.
terminology="$output/products.terminology"
if [ ! -e "$terminology" ]; then
    how=()
    for setting in ${IMPORT:-}; do how+=(--set "$setting"); done
    $alphita terminology import products "$products" -o "$terminology" --set language="$language" \
        ${how[@]+"${how[@]}"}
fi

threads=()
if [ -n "${THREADS:-}" ]; then threads=(--threads "$THREADS"); fi
further=(--set segmenter="${SEGMENTER:-jieba}")
if [ -n "${ENTITIES:-}" ]; then further+=(--set "entities_from=$ENTITIES"); fi
if [ -n "${RELEASED:-}" ]; then
    further+=(--set mask_tokens=0.85 --set generator=0.25 --set negatives_by=any --set schedule=constant)
fi
baselines=${BASELINES-google-bert/bert-base-chinese hfl/chinese-electra-base-discriminator}
for name in $baselines; do further+=(--beside "$name"); done
for setting in ${TRAIN:-}; do further+=(--set "$setting"); done
for setting in ${QTREL:-}; do further+=(--qtrel "$setting"); done
for attribute in ${ATTRIBUTES:-}; do further+=(--attribute "$attribute"); done
rows=${ROWS:-base_128,em_128,em_pap}
if [ -n "${DRY_RUN:-}" ]; then further+=(--dry-run); fi
"$python" "$here/electra.py" run -t "$terminology" "${corpus[@]}" -o "$output/rows" --language "$language" \
    --rows "$rows" --seeds "$seeds" "${further[@]}" ${threads[@]+"${threads[@]}"}
if [ -n "${DRY_RUN:-}" ]; then exit 0; fi
seed=${seeds%%,*}
if [ -e "$output/rows/base_128/$seed/model" ] && [ -e "$output/rows/em_pap/$seed/model" ]; then
    "$python" "$here/electra.py" cases "$output/rows" -t "$terminology" --models base_128,em_pap \
        --seed "$seed" ${threads[@]+"${threads[@]}"}
fi

# Table 4: five runs of fine-tuning each, of the models that are there.
systems=()
for row in base_128 em_128 em_pap; do
    model="$output/rows/$row/$seed/model"
    if [ -e "$model" ]; then systems+=(--model "$model,name=$row"); fi
done
for name in $baselines; do systems+=(--model "$name"); done
if [ -n "${CHINESEBLUE:-}" ] && [ ${#systems[@]} -gt 0 ] && [ ! -e "$output/chineseblue" ]; then
    $alphita evaluate ner sentence_pair answer_ranking retrieval classification "${systems[@]}" \
        --data "$CHINESEBLUE" --output "$output/chineseblue" ${threads[@]+"${threads[@]}"}
fi
