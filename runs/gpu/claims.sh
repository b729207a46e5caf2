#!/usr/bin/env bash
# The papers' claims on open data at ten million rows a training, on one GPU: both CODER ablations, BioLORD's phases and
# the Italian system, each from an encoder tuned on sentences and from one that is not; ELECTRA with EM and PAP. In
# pieces: after MINUTES it stops, and the same command goes on, from the last checkpoint of what it was in.
#
#   runs/gpu/claims.sh DATA OUTPUT [MINUTES]
#
# DATA      a folder as runs/italian_open.sh and runs/electra_em_pap_open.sh take it, with
#             ontologies/                  open ontologies, as runs/open_metathesaurus.sh takes them
#             benchmarks/stsb_multi_mt/    as runs/biolord_open.sh takes its STS
#             open_graph/definitions.tsv   id, lang, definition, source: text for the encoder that is not tuned
# OUTPUT    a folder; OUTPUT/tables is what to take home: every table, report and log that is there
# MINUTES   10 by default; 0: to the end
#
# By environment, smaller to try it out: STEPS=20000 of each training (of 512 rows, so ten million); SEEDS=0,1,2;
# ROWS, ITALIAN, ELECTRA, rows of the three tables with commas between; BASES="minilm untuned".
set -euo pipefail

data=${1:?usage: runs/gpu/claims.sh DATA OUTPUT [MINUTES]}
output=${2:?usage: runs/gpu/claims.sh DATA OUTPUT [MINUTES]}
minutes=${3:-10}
alphita=${ALPHITA:-alphita}
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=runs/_data.bash
source "$here/_data.bash"
steps=${STEPS:-20000}
seeds=${SEEDS:-0,1,2}
mkdir -p "$output/tables"

# Copy what is to be taken home.
gather() {
    local file
    while IFS= read -r file; do
        mkdir -p "$output/tables/$(dirname "${file#"$output"/}")"
        cp "$file" "$output/tables/${file#"$output"/}"
    done < <(find "$output" -path "$output/tables" -prune -o -type f \
        \( -name 'table.*' -o -name 'cases.*' -o -name report.json -o -name log.jsonl -o -name training.json \) -print)
}
trap gather EXIT

# Run a command in the time that is left. Called by itself, not in a condition, so that a failure ends the script.
piece() {
    local left=$((minutes * 60 - SECONDS)) status=0
    if [ "$minutes" -eq 0 ]; then
        "$@"
        return
    fi
    if [ "$left" -gt 0 ]; then
        timeout --signal=INT --kill-after=30 "$left" "$@" || status=$?
        [ "$status" -eq 0 ] && return
        if [ "$status" -ne 124 ] && [ "$status" -ne 137 ]; then exit "$status"; fi
    fi
    echo "$minutes minutes are over; the same command goes on" >&2
    exit 0
}

open="$output/open.terminology"
if [ ! -e "$open" ]; then piece "$here/open_metathesaurus.sh" "$data/ontologies" "$open"; fi

# As large as MiniLM, from random weights: ELECTRA on clinical texts and definitions.
untuned="$output/untuned"
if [ ! -e "$untuned" ]; then
    texts English
    definitions="$output/definitions.txt"
    if [ ! -e "$definitions" ]; then
        file=$(input open_graph/definitions.tsv)
        case "$file" in *.gz) gunzip -c "$file" ;; *) cat "$file" ;; esac | awk -F'\t' 'NR > 1 && $2 == "en" { print $3 }' \
            >"$definitions.part"
        mv "$definitions.part" "$definitions"
    fi
    corpus=$(IFS=,; echo "$definitions,${found[*]}")
    piece $alphita train electra_em_pap --terminology "$open" --output "$untuned" --resume --set corpus="$corpus" \
        --set rho=0 --set entities=false --set segmenter=none --set layers=6 --set hidden=384 --set heads=12 \
        --set vocabulary=30000 --set batch=128 --set steps="$steps" --set warmup_steps=$((steps / 10)) \
        --set learning_rate=5e-4 --set pooling=mean
fi

for base in ${BASES:-minilm untuned}; do
    encoder=$base
    if [ "$base" = untuned ]; then encoder=$untuned; fi
    export ENCODER=$encoder
    DATA="$data/benchmarks" STEPS=$steps SEEDS=$seeds LEARNING_RATE=2e-5 M=8 ROWS=${ROWS:-} \
        piece "$here/coder_ablation.sh" "$open" "$output/$base/coder"
    SEEDS=${seeds//,/ } SETTINGS="${STEPS:+steps=$STEPS}" \
        piece "$here/biolord_open.sh" "$open" "$output/$base/biolord" "$data/benchmarks/stsb_multi_mt" "$data/benchmarks"
    STEPS=${STEPS:-0} SEEDS=$seeds ROWS=${ITALIAN:-} ITALIAN_ROWS=${ITALIAN:-base,ext,v1,v2,v3,injected,pipelined} \
        EXT='' MARGIN='' INJECTION='' piece "$here/italian_open.sh" "$data" "$output/$base/italian"
done
ENCODER='' STEPS=${STEPS:-100000} SEEDS=$seeds ROWS=${ELECTRA:-base,em,em_pap} LAYERS=12 HIDDEN=256 HEADS=4 \
    TRAIN='vocabulary=16000 learning_rate=5e-4' QTREL='learning_rate=3e-4' MOST=9303 TEXTS=0 \
    piece "$here/electra_em_pap_open.sh" "$data" "$output/electra"
echo "all of it is done; the tables are in $output/tables" >&2
