# shellcheck shell=bash
#
# What the scripts of CODER's papers and of BioLORD's on UMLS share: arguments and environment, and how the training is
# started; and what those of CODER's share beside it: SNOMED CT to measure MCSM on, and the evaluation. They source it;
# each sets its own graph, settings and steps.

# Read META OUTPUT [DATA] and the environment; set meta, output, data, alphita, further, launch, snomed and model.
begin() {
    local script
    script=$(basename "$0")
    meta=${1:?usage: runs/$script META OUTPUT [DATA]}
    output=${2:?usage: runs/$script META OUTPUT [DATA]}
    data=${3:-}
    alphita=${ALPHITA:-alphita}
    snomed="$output/snomed.terminology"
    model="$output/model"
    further=()
    local setting
    for setting in ${SETTINGS:-}; do further+=(--set "$setting"); done
    # shellcheck disable=SC2206
    launch=($alphita)
    if [ "${GPUS:-1}" -gt 1 ]; then
        launch=(torchrun --nproc-per-node="$GPUS" -m alphita)
    fi
    [ -e "$meta" ] || { echo "error: there is no $meta" >&2; exit 2; }
    mkdir -p "$output"
}

# Make what MCSM is measured on: the concepts of SNOMED CT.
import_snomed() {
    if [ ! -e "$snomed" ]; then
        $alphita terminology import umls "$meta" --set languages=ENG --set sources=SNOMEDCT_US -o "$snomed"
    fi
}

# Tell whether a benchmark's folder is there, and say so if it is left out.
has() {
    [ -d "$data/$1" ] || { echo "left out: $1, for there is no $data/$1" >&2; return 1; }
}

# Evaluate with [CLS] and with the mean of the tokens, as the papers' tables have them; $1: the terminology of UMLS;
# $2: `mantra`, where the paper has it.
evaluate_all() {
    local umls=$1 benchmark
    local systems=(--model "$model,pooling=cls,name=cls" --model "$model,pooling=mean,name=mean")
    $alphita evaluate mcsm "${systems[@]}" --terminology "$snomed" -o "$output/mcsm" --force
    # The released code seeks neighbours among the concepts of the six types only; the equation among all.
    $alphita evaluate mcsm "${systems[@]}" --terminology "$snomed" --set mcsm.candidates=types \
        -o "$output/mcsm_types" --force
    if [ -n "$data" ]; then
        for benchmark in cadec psytar; do
            if has "$benchmark"; then
                $alphita evaluate "$benchmark" "${systems[@]}" --data "$data" -o "$output/$benchmark" --force
            fi
        done
        if [ "${2:-}" = mantra ] && has mantra; then
            $alphita evaluate mantra "${systems[@]}" --terminology "$umls" --data "$data" \
                --set mantra.sources='SNOMEDCT,SCT*,MESH,MSH*,MEDDRA,MDR*' -o "$output/mantra" --force
        fi
        # The papers' DDBRC.
        if has relation_classification; then
            $alphita evaluate relation_classification "${systems[@]:0:2}" --terminology "$umls" --data "$data" \
                --set fine_tune=true -o "$output/relation_classification" --force
        fi
    fi
    echo "the reports are in $output"
}
