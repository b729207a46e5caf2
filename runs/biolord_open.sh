#!/usr/bin/env bash
# BioLORD-2023 of Remy et al. 2024 (JAMIA 31(9)) on a graph of open ontologies, for which no licence is needed: every
# phase's model beside the base and beside BioLORD-2022's plain contrast, scored on the same sets.
#
#   runs/biolord_open.sh OPEN.terminology OUTPUT STS [DATA]
#
# OPEN.terminology   made by runs/open_metathesaurus.sh: HPO's definitions and those of the other open ontologies
# OUTPUT             a folder: en.terminology, en.split, and for each seed a model, its phases and the reports
# STS                a folder with stsb-en-train.csv and stsb-en-dev.csv (https://github.com/PhilipMay/stsb-multi-mt),
#                    gzipped (.gz) or not: what the base is adapted to, and what choices are made on
# DATA               the benchmarks' files, for `sts` and `relatedness` among others (`alphita evaluate --about NAME`);
#                    without it only names held out of the graph are scored
#
# By environment: SEEDS="0 1 2" of the whole run; STUDENTS=3 that the soup is made of (the paper: 7); ENCODER=minilm;
# SETTINGS="key=value ...", further settings of the training, with an OUTPUT of their own. Those of appendix A:
#
#   without templates       SETTINGS=kinds=definition
#   without definitions     SETTINGS=kinds=description
#   a domain encoder        ENCODER=FOLDER, a model of biomedical text that was not tuned to sentences
#   hard negatives          SETTINGS=hard_negatives=2
#
# All choices, the soup's included, are made on STS-B dev and on definitions held out of training, which must find the
# names of their concepts; the sets of DATA are scored at the end. The same command goes on with a run that was cut:
# what is finished is kept, and training continues in the phase it was in, from its last checkpoint.
set -euo pipefail

open=${1:?usage: runs/biolord_open.sh OPEN.terminology OUTPUT STS [DATA]}
output=${2:?usage: runs/biolord_open.sh OPEN.terminology OUTPUT STS [DATA]}
sts=${3:?usage: runs/biolord_open.sh OPEN.terminology OUTPUT STS [DATA]}
data=${4:-}
alphita=${ALPHITA:-alphita}
encoder=${ENCODER:-minilm}
students=${STUDENTS:-3}
further=()
for setting in ${SETTINGS:-}; do further+=(--set "$setting"); done
[ -d "$open" ] || { echo "error: there is no $open; make it with runs/open_metathesaurus.sh" >&2; exit 2; }
mkdir -p "$output"
english="$output/en.terminology"
split="$output/en.split"

# One of the two files, gzipped or not.
sentences() {
    local file="$sts/stsb-en-$1.csv"
    if [ -e "$file.gz" ]; then file="$file.gz"; fi
    [ -e "$file" ] || { echo "error: there is no $file" >&2; exit 2; }
    echo "$file"
}
scored=$(sentences train)
dev=$(sentences dev)

# The graph in English; one name of a tenth of the concepts that have several is held out, for normalization.
if [ ! -e "$english" ]; then
    $alphita terminology subset "$open" --language en --no-retired -o "$english"
fi
if [ ! -e "$split" ]; then
    $alphita terminology split "$english" --fraction 0.1 --seed 42 -o "$split"
fi

for seed in ${SEEDS:-0 1 2}; do
    model="$output/seed_$seed"
    plain="$output/seed_${seed}_2022"
    # All phases: the models of each stay in $model.phases.
    if [ ! -e "$model" ]; then
        $alphita train biolord --terminology "$english" --split "$split" --encoder "$encoder" --output "$model" \
            --resume --set scored="$scored" --set dev_scored="$dev" --set seeds="$students" --set seed="$seed" \
            ${further[@]+"${further[@]}"}
    fi
    # BioLORD-2022: the contrastive phase alone, on the base as it comes.
    if [ ! -e "$plain" ]; then
        $alphita train biolord --terminology "$english" --split "$split" --encoder "$encoder" --output "$plain" \
            --resume --set phases=contrast --set batch=96 --set dev_scored="$dev" --set seed="$seed" \
            ${further[@]+"${further[@]}"}
    fi

    # Table 2: the base, the adapted base, BioLORD-2022, C, S and the soup.
    systems=(
        --model "$encoder,max_length=128,name=base"
        --model "$model.phases/adapted,name=adapted"
        --model "$plain,name=2022"
        --model "$model.phases/contrasted_adapted,name=C"
        --model "$model.phases/distilled_0,name=S"
        --model "$model,name=soup"
    )
    $alphita evaluate held_out_synonyms "${systems[@]}" --terminology "$english" --set split="$split" \
        -o "$output/held_out_synonyms_$seed" --force
    if [ -n "$data" ]; then
        for benchmark in sts relatedness; do
            $alphita evaluate "$benchmark" "${systems[@]}" --data "$data" -o "$output/${benchmark}_$seed" --force ||
                echo "left out: $benchmark, for its data are not in $data" >&2
        done
    fi
done
echo "the reports are in $output"
