#!/usr/bin/env bash
# Trains the encoders of models/ on one GPU, by the recipe alphita: twice from MiniLM, with and without names that lie
# near as negatives, whose mean is alphita-en-fp16 (runs/default_model.py), and once from a multilingual base.
#
#   runs/gpu/alphita.sh EN.terminology MULTI.terminology SPLIT MULTI-BASE OUTPUT [STEPS]
#
# runs/open_knowledge.sh makes the terminologies, once in English and once in several languages; SPLIT holds the strings
# to score by (`alphita terminology split`); MULTI-BASE is the folder of an E5 model, which wants "query: " before a
# string. Small terminologies and few STEPS show on a processor that all of it runs. docs/results/alphita.json says how
# the weights in models/ were made, beside each other too, but with a schedule by time. The same command goes on after a
# stop, and does nothing where all three are finished; remove a model's folder to train it anew.
set -euo pipefail

usage="usage: runs/gpu/alphita.sh EN.terminology MULTI.terminology SPLIT MULTI-BASE OUTPUT [STEPS]"
english=${1:?$usage}
multi=${2:?$usage}
split=${3:?$usage}
base=${4:?$usage}
output=${5:?$usage}
steps=${6:-1400}
alphita=${ALPHITA:-alphita}
mkdir -p "$output"

# Train one of them, NAME BASE TERMINOLOGY SETTING..., on from where it was stopped; one that is finished stays.
train() {
    local name=$1 base=$2 terminology=$3
    shift 3
    if [ -e "$output/$name" ]; then return; fi
    $alphita train alphita --terminology "$terminology" --split "$split" --encoder "$base" -o "$output/$name" --resume \
        --set steps="$steps" "${@/#/--set=}" >>"$output/$name.log" 2>&1
}

# One run leaves much of a GPU idle: they run beside each other.
train near minilm "$english" &
near=$!
train plain minilm "$english" mined=false &
plain=$!
train multi "$base" "$multi" mined=false learning_rate=2e-4 base_prefix="query: " centred=true &
last=$!
failed=0
for run in $near $plain $last; do
    wait "$run" || failed=1
done
tail -n 2 "$output"/*.log
exit $failed
