#!/usr/bin/env bash
# ELECTRA with entity masking and product attribute prediction (Liu, Jiang and Lyu 2022) on open data, for which no
# licence is needed: Italian medicinal products with Italian clinical text, and rare diseases as products, their
# phenotypes, onsets and inheritance as attributes, with English clinical text. Pre-trained from scratch with and
# without entity masking (EM) and attribute prediction (PAP); then query-title relevance, search, tables and cases.
#
#   runs/electra_em_pap_open.sh DATA OUTPUT
#
# DATA      a folder with, each gzipped (.gz) or not,
#             products/it_drug_products.tsv   product, active_ingredient, atc, company, route; _ where there is nothing
#             ontologies/phenotype.hpoa       HPO's annotations of diseases
#             text/e3c/LANGUAGE.layer*.jsonl  clinical texts, field "text", for English and Italian
# OUTPUT    a folder; what is finished in it is not done again, so the same command goes on with a cut run.
#           OUTPUT/drugs and OUTPUT/diseases get table.md and cases.md
#
# By environment, with what is taken without them, which is small:
#
#   SETS='drugs diseases'   which of the two
#   ROWS=base,em,em_pap     of the tables (`python runs/electra.py rows`); QTREL_ROWS, those fine-tuned on query-title
#                           relevance and searched with: all of ROWS; none if it is empty
#   SEEDS=0                 the outer loop; with 0,1,2 the tables have a spread, and the claims are judged
#   STEPS=1000              of a row of batch 16; those of batch 128 take an eighth
#   LAYERS=4 HIDDEN=128 HEADS=4     the encoder's size
#   ENCODER=                an encoder that all rows start from in place of scratch, as minilm; ROWS=start,... also
#                           scores it as it comes
#   TRAIN='max_length=64 vocabulary=8000 learning_rate=5e-4'    further settings of every pre-training
#                           (docs/search.md's tables add pooling=mean negatives_by=frequency; an encoder that is read
#                           by the mean of its tokens, as minilm, wants pooling=mean)
#   QTREL='epochs=5 learning_rate=5e-4'     settings of every fine-tuning
#   MOST=2000               pairs of a part of QTRel at most
#   TEXTS=1500              texts of a language at most, the first ones; 0: all
#   CASES_MODELS=base,em_pap    laid side by side
#   THREADS=                of training and scoring; all cores
#
# Larger, where a GPU is at hand, with an OUTPUT of its own:
#
#   ROWS=base,em,em_pap,em_128,rho_1,rho_10,rho_15,gamma_2,gamma_6,gamma_8 SEEDS=0,1,2 STEPS=100000 LAYERS=12 \
#   HIDDEN=256 HEADS=4 TRAIN='vocabulary=16000 learning_rate=5e-4' QTREL='learning_rate=3e-4' MOST=9303 TEXTS=0 \
#   runs/electra_em_pap_open.sh DATA OUTPUT
set -euo pipefail

data=${1:?usage: runs/electra_em_pap_open.sh DATA OUTPUT}
output=${2:?usage: runs/electra_em_pap_open.sh DATA OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
sets=${SETS-drugs diseases}
texts=${TEXTS:-1500}

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

# Everything is looked for before the first hour of work.
drugs='' diseases='' italian=() english=()
for set in $sets; do
    case $set in
    drugs)
        drugs=$(input products/it_drug_products.tsv)
        texts Italian
        italian=("${found[@]}")
        ;;
    diseases)
        diseases=$(input ontologies/phenotype.hpoa)
        texts English
        english=("${found[@]}")
        ;;
    *)
        echo "error: SETS is of drugs and diseases, not $set" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$output"

# Sets `corpus` to the options that name the texts: the first ones in one file, which appears whole or not at all.
shorten() {
    local name=$1 file
    shift
    corpus=()
    if [ "$texts" = 0 ]; then
        for file in "$@"; do corpus+=(--corpus "$file"); done
        return
    fi
    if [ ! -e "$output/$name.$texts.jsonl" ]; then
        # awk reads to the end, so that nothing is cut off under a writer.
        for file in "$@"; do gzip -cdf "$file"; done | awk -v most="$texts" 'NR <= most' > "$output/$name.part"
        mv "$output/$name.part" "$output/$name.$texts.jsonl"
    fi
    corpus=(--corpus "$output/$name.$texts.jsonl")
}

seeds=${SEEDS:-0}
models=${CASES_MODELS:-base,em_pap}
threads=()
if [ -n "${THREADS:-}" ]; then threads=(--threads "$THREADS"); fi
shared=(--rows "${ROWS:-base,em,em_pap}" --seeds "$seeds" --steps "${STEPS:-1000}" --most "${MOST:-2000}")
if [ -n "${ENCODER:-}" ]; then
    shared+=(--encoder "$ENCODER")
else
    shared+=(--layers "${LAYERS:-4}" --hidden "${HIDDEN:-128}" --heads "${HEADS:-4}")
fi
if [ -n "${QTREL_ROWS+given}" ]; then shared+=(--qtrel-rows "$QTREL_ROWS"); fi
for setting in ${TRAIN-max_length=64 vocabulary=8000 learning_rate=5e-4}; do shared+=(--set "$setting"); done
for setting in ${QTREL-epochs=5 learning_rate=5e-4}; do shared+=(--qtrel "$setting"); done

# All of one set: its terminology, its folder, and the further options of the training.
electra() {
    local terminology=$1 folder=$2 row
    shift 2
    "$python" "$here/electra.py" run -t "$terminology" -o "$folder" "${corpus[@]}" "${shared[@]}" "$@" \
        ${threads[@]+"${threads[@]}"}
    for row in ${models//,/ }; do
        if [ ! -e "$folder/$row/${seeds%%,*}/model" ]; then
            echo "left out: the cases, for there is no model of $row" >&2
            return
        fi
    done
    "$python" "$here/electra.py" cases "$folder" -t "$terminology" --seed "${seeds%%,*}" \
        --models "$models" ${threads[@]+"${threads[@]}"}
}

# Each terminology appears whole or not at all, so what is there is finished.
if [ -n "$drugs" ]; then
    terminology="$output/drugs.terminology"
    if [ ! -e "$terminology" ]; then
        $alphita terminology import products "$drugs" -o "$terminology" --set title_column=product \
            --set attributes=active_ingredient,atc,company,route --set empty=_ --set language=it
    fi
    shorten italian "${italian[@]}"
    electra "$terminology" "$output/drugs" --language it
fi
if [ -n "$diseases" ]; then
    terms="$output/hpo.terminology"
    terminology="$output/diseases.terminology"
    if [ ! -e "$terms" ]; then
        $alphita terminology import obo hpo --packaged -o "$terms"
    fi
    if [ ! -e "$terminology" ]; then
        $alphita terminology import hpoa "$diseases" --onto "$terms" --set frequency=false -o "$terminology"
    fi
    shorten english "${english[@]}"
    electra "$terminology" "$output/diseases" --language en --attribute has_phenotype --attribute has_onset \
        --attribute has_inheritance
fi
