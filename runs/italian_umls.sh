#!/usr/bin/env bash
# The Italian system of Amore Bondarenko, Ferrod and Di Caro (2022), whole: the Italian UMLS and an Italian corpus ->
# ext-BERT, graph models, MS losses v1 to v3, the injected and the pipelined encoder -> the paper's tables 2 to 5.
#
#   runs/italian_umls.sh META CORPUS OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF (MRCONSO.RRF, MRREL.RRF, MRSTY.RRF, ...), or a zip file of it. The
#          paper has 2021AB. It needs a UMLS licence: https://www.nlm.nih.gov/research/umls
# CORPUS   a folder of Italian medical text: *.txt with a document a line, *.jsonl with a field "text", each perhaps .gz.
#          The paper has 36 M words: Wikipedia, health sites, PubMed, lectures, E3C, theses
# OUTPUT   a folder: umls_ita.terminology, graph, and a folder for each row and seed with its model and report
# DATA     a folder with relatedness/MayoSRS.csv and UMNSRS_relatedness.csv; without it relatedness is left out
#
# By environment: GPUS=1 of this machine; BASELINES, hub names (which need a network) or folders to lay beside the rows,
# by default SapBERT, CODER and mBERT; one that cannot be had is "not scored"; ENCODER, a hub name (which needs a network) or a folder; SEEDS=0; ROWS, all; STEPS=0 (the paper's; see
# runs/italian.py); DEVICE=cpu, cuda or cuda:N (without it the graph models take the processor); TRANSLATIONS,
# a CSV file Term1,Term2,Translation1,Translation2 of the pairs of DATA, which the authors made by hand: without it the
# pairs are compared in English; EXT, MARGIN, INJECTION, GRAPH: further settings, "key=value ...", with an OUTPUT of
# their own; DRY_RUN=1, only import and say what each training takes whose start is there. The same command goes on with
# a run that was cut.
#
# UMLS_ITA is ICPCITA, MDRITA and MSHITA, and of their concepts those of 13 groups of semantic types (runs/
# italian.py): 123,265 terms of 86,610 concepts in the paper, 415,170 relations of 171 kinds between 69,193 of them
# after the filter. Settings are the recipes' own, which are the paper's (section 4): injection after layer 8, 40,000
# steps, 4,000 of warm-up, batch 6, 1e-5; losses with 4 prototypes, 20 positives, 30 possible negatives, 4 contexts a
# term, 8 batches a step, 2e-5, 4 epochs; vocabulary of 15,000 tokens. The length of ext-BERT's training and the graph
# models' own settings are not stated. The base is not named; one of 31,102 tokens is dbmdz's Italian BERT.
#
# The numbers to match. Table 2:
#
#              hits@1  hits@3  hits@10   MR    MRR    MCSM   MayoSRS  UMNSRS
#   TransE     0.07    0.21    0.38     1619   0.17   9.76   0.45     0.49
#   ComplEx    0.07    0.19    0.34     1918   0.16   9.96   0.55     0.45
#   RotatE     0.14    0.25    0.42     3382   0.17   9.42   0.52     0.40
#   SimplE     0.09    0.17    0.30     2608   0.16   9.68   0.47     0.41
#
# Tables 3 to 5 (F1 and theta of clustering pairs, chosen on the scored pairs):
#
#                  MCSM   theta   F1      MayoSRS  UMNSRS
#   base           4.53   0.94     7.91    0.12    0.19
#   ext-BERT       4.48   0.94     5.00   -0.07    0.24
#   MS loss v1     5.29           14.98    0.36    0.26
#   MS loss v2     5.36           16.91    0.30    0.27
#   MS loss v3     5.57   0.88    17.44    0.30    0.36
#   KGE-injected   4.78   0.90     5.86    0.31    0.32
#   pipelined      5.82   0.89    19.37    0.32    0.41
#
# With [CLS]: MayoSRS 0.49, UMNSRS 0.50, MCSM 0.61 and F1 10.39 less. With 16 epochs: F1 25.62.
# MCSM by type (table 4):
#
#                  BP    BS    C     MD    F     SS    HCA   DP    LP    TPP   PF    PhF   IP
#   base           2.97  0.78  8.72  2.57  6.30  3.27  3.84  3.81  2.86  6.00  9.07  2.66  6.00
#   ext-BERT       2.84  0.93  8.71  2.37  6.72  3.28  3.06  3.48  3.13  6.04  9.05  2.37  6.21
#   MS loss v3     4.38  1.58  9.77  3.77  7.05  4.37  4.41  5.37  4.25  7.49  9.57  3.37  6.98
#   KGE-injected   3.00  0.90  8.81  2.64  7.04  3.65  3.96  3.91  3.01  6.36  9.09  2.93  6.81
#   pipelined      4.84  1.58  9.67  3.72  7.31  4.60  5.02  5.83  4.66  7.81  9.59  3.69  7.36
set -euo pipefail

meta=${1:?usage: runs/italian_umls.sh META CORPUS OUTPUT [DATA]}
corpus=${2:?usage: runs/italian_umls.sh META CORPUS OUTPUT [DATA]}
output=${3:?usage: runs/italian_umls.sh META CORPUS OUTPUT [DATA]}
data=${4:-}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=runs/_data.bash
source "$here/_data.bash"
encoder=${ENCODER:-dbmdz/bert-base-italian-uncased}
release "$meta" MRCONSO MRREL MRSTY
[ -d "$corpus" ] || { echo "error: there is no folder $corpus" >&2; exit 2; }
documents "$corpus"
text=()
for file in "${found[@]}"; do text+=(--corpus "$file"); done
benchmarks=mcsm,clustering_pairs
scored=()
if [ -n "$data" ]; then
    [ -d "$data" ] || { echo "error: there is no folder $data" >&2; exit 2; }
    benchmarks=$benchmarks,relatedness
    scored=(--data "$data")
fi
mkdir -p "$output"

# Each of these appears whole or not at all, so what is there is finished. Terms of all Italian sources and relations of
# all sources between their concepts: those of a translation stand under the name of the original.
italian="$output/ita.terminology"
umls="$output/umls_ita.terminology"
if [ ! -e "$italian" ]; then
    $alphita terminology import umls "$meta" --set languages=ITA --set preferred_language=ITA --set retired=false \
        --set relation_label=rela -o "$italian"
fi
"$python" "$here/italian.py" groups "$italian" -o "$umls" --sources ICPCITA,MDRITA,MSHITA

device=${DEVICE:-cpu}
device=${device%%:*}
settings=()
for setting in ${GRAPH:-}; do settings+=(--set "$setting"); done
further=()
if [ -n "${DRY_RUN:-}" ]; then
    further+=(--dry-run)
else
    "$python" "$here/italian.py" graph --terminology "$umls" -o "$output/graph" --device "$device" \
        ${scored[@]+"${scored[@]}"} ${settings[@]+"${settings[@]}"}
fi

for setting in ${EXT:-}; do further+=(--ext "$setting"); done
for setting in ${MARGIN:-}; do further+=(--margin "$setting"); done
for setting in ${INJECTION:-}; do further+=(--injection "$setting"); done
if [ -n "${ROWS:-}" ]; then further+=(--rows "$ROWS"); fi
papers="cambridgeltl/SapBERT-UMLS-2020AB-all-lang-from-XLMR GanjinZero/coder_all"
papers+=" google-bert/bert-base-multilingual-cased"
for name in ${BASELINES-$papers}; do further+=(--beside "$name"); done
if [ -n "$data" ] && [ -n "${TRANSLATIONS:-}" ]; then
    further+=(--score "relatedness.translations=$TRANSLATIONS")
fi
"$python" "$here/italian.py" run --terminology "$umls" "${text[@]}" -o "$output" --graphs "$output/graph" \
    --encoder "$encoder" --language it --seeds "${SEEDS:-0}" --steps "${STEPS:-0}" --benchmarks "$benchmarks" \
    ${scored[@]+"${scored[@]}"} ${further[@]+"${further[@]}"}
