# shellcheck shell=bash
#
# What the scripts of the papers on UMLS share: arguments and environment, how the training is started, and the
# evaluation: the papers' rows beside ours, tables, pictures and cases. They source it; each sets its own graph,
# settings and steps. By environment, beside what the head of each says:
#
#   BASELINES="NAME ..."  hub names (which need a network) or folders of the models that the paper lays beside its own,
#                         each with [CLS] and with the mean of its tokens; BASELINES= leaves them out. They are fetched
#                         before the training; one that cannot be had is "not scored" in the reports, with its reason
#   TERMINOLOGIES=OUTPUT  the folder of what META is imported to, which several runs may share
#   VECTORS="KIND:FILE"   files of word and concept vectors, as word_vectors:FILE and concept_vectors:FILE,prefix=UMLS
#   DRY_RUN=1             import META and say what the training takes in time and memory, here and on a GPU; no more

# shellcheck source=runs/_data.bash
source "$(dirname "${BASH_SOURCE[0]}")/_data.bash"

# Read META OUTPUT [DATA] and the environment; see that META has the files that the script says it $needs; set meta,
# output, data, alphita, further, launch, terminologies, snomed and model.
begin() {
    local script
    script=$(basename "$0")
    meta=${1:?usage: runs/$script META OUTPUT [DATA]}
    output=${2:?usage: runs/$script META OUTPUT [DATA]}
    data=${3:-}
    alphita=${ALPHITA:-alphita}
    terminologies=${TERMINOLOGIES:-$output}
    snomed="$terminologies/snomed.terminology"
    model="$output/model"
    further=()
    local setting
    for setting in ${SETTINGS:-}; do further+=(--set "$setting"); done
    # shellcheck disable=SC2206
    launch=($alphita)
    if [ "${GPUS:-1}" -gt 1 ]; then
        launch=(torchrun --nproc-per-node="$GPUS" -m alphita)
    fi
    # shellcheck disable=SC2086
    release "$meta" ${needs:-MRCONSO MRREL MRSTY}
    if [ -n "$data" ] && [ ! -d "$data" ]; then
        echo "error: there is no folder $data" >&2
        exit 2
    fi
    mkdir -p "$output" "$terminologies"
}

# Run `train RECIPE ...` from $encoder to $model, unless that is there; with DRY_RUN say what it takes, and end. Before,
# say which of the rows beside it cannot be had, of the paper's $papers or of BASELINES.
learn() {
    local how=(--resume)
    if [ -n "${DRY_RUN:-}" ]; then
        how=(--dry-run)
    else
        rows_beside cls
        if [ ${#beside[@]} -gt 0 ]; then
            $alphita evaluate --check "${beside[@]}"
        fi
    fi
    if [ ! -e "$model" ] || [ -n "${DRY_RUN:-}" ]; then
        "${launch[@]}" "${@:1:2}" --encoder "$encoder" --output "$model" "${how[@]}" "${@:3}" \
            ${further[@]+"${further[@]}"}
    fi
    if [ -n "${DRY_RUN:-}" ]; then exit 0; fi
}

# Import the English names of one source, unless that is done, and tell whether they are there. $1: the terminology;
# $2: the source; $3: what is left out without it.
import_source() {
    if [ ! -e "$1" ]; then
        $alphita terminology import umls "$meta" --set languages=ENG --set sources="$2" -o "$1" || {
            echo "left out: $3, for $meta has no English names of $2" >&2
            return 1
        }
    fi
}

# Make what MCSM is measured on: the concepts of SNOMED CT.
import_snomed() {
    import_source "$snomed" SNOMEDCT_US "all that follows"
}

# Tell whether a benchmark's folder is there, and say so if it is left out.
has() {
    [ -d "$data/$1" ] || { echo "left out: $1, for there is no $data/$1" >&2; return 1; }
}

# Set `beside` to the rows that stand beside ours: the paper's models, $papers, unless BASELINES names others. $1: the
# poolings they are scored with.
rows_beside() {
    local name pooling
    beside=()
    for name in ${BASELINES-${papers:-}}; do
        for pooling in $1; do beside+=(--model "$name,pooling=$pooling,name=$(basename "$name") $pooling"); done
    done
    for name in ${VECTORS:-}; do beside+=(--model "$name"); done
}

# Evaluate with [CLS] and with the mean of the tokens, as the papers' tables have them; $1: the terminology of UMLS;
# $2: `mantra`, where the paper has it.
evaluate_all() {
    local umls=$1 benchmark
    rows_beside "cls mean"
    local systems=(--model "$model,pooling=cls,name=cls" --model "$model,pooling=mean,name=mean"
        ${beside[@]+"${beside[@]}"})
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
        # The English names of SNOMED CT, MeSH and MedDRA.
        if [ "${2:-}" = mantra ] && has mantra; then
            $alphita evaluate mantra "${systems[@]}" --terminology "$umls" --data "$data" \
                --set mantra.sources=SNOMEDCT,MESH,MEDDRA --set mantra.languages=en -o "$output/mantra" --force
        fi
        # The papers' DDBRC, which has no means of tokens.
        if has relation_classification; then
            rows_beside cls
            $alphita evaluate relation_classification --model "$model,pooling=cls,name=cls" \
                ${beside[@]+"${beside[@]}"} --terminology "$umls" --data "$data" --set fine_tune=true \
                -o "$output/relation_classification" --force
        fi
    fi
    evaluate_cases "${2:-}" "${systems[@]}"
    evaluate_pictures "${systems[@]}"
    echo "the reports are in $output"
}

# Evaluate as BioLORD's paper does; $1: the terminology of UMLS, for MedDRA's preferred terms; the others: the systems.
evaluate_biolord() {
    local umls=$1 benchmark
    shift
    [ -n "$data" ] || return 0
    for benchmark in sts relatedness mednli_s; do
        if has "$benchmark"; then
            $alphita evaluate "$benchmark" "$@" --data "$data" -o "$output/$benchmark" --force
        fi
    done
    if has biosyn; then
        $alphita evaluate biosyn "$@" --data "$data" --terminology "$umls" --set biosyn.protocol=portelli \
            -o "$output/biosyn" --force
    fi
}

# The t-SNE pictures, of ICD-10-CM: terms by concept, concepts by semantic type. They need the extra "plots".
evaluate_pictures() {
    local icd10cm="$terminologies/icd10cm.terminology"
    if import_source "$icd10cm" ICD10CM "the t-SNE pictures"; then
        $alphita evaluate synonym_similarity "$@" --terminology "$icd10cm" --pictures -o "$output/pictures" --force
    fi
}

# The cases, sought in ICD-9-CM: for `mantra`, of all languages, the English term nearest to each language's first name
# of C0004604; else the five nearest to two mentions. $1: `mantra` or not. WITHOUT: a model to lay beside it, as the
# paper does that one which learned no relations.
evaluate_cases() {
    local icd9cm="$terminologies/icd9cm.terminology" queries="$output/cases.txt" k=5
    local every=$1
    shift
    if [ "$every" = mantra ]; then
        k=1
        if [ ! -f "$meta/MRCONSO.RRF" ]; then
            echo "left out: the cases, for $meta/MRCONSO.RRF is no file" >&2
            return
        fi
        awk -F'|' '$1 == "C0004604" && $2 != "ENG" && !seen[$2]++ { print $15 }' "$meta/MRCONSO.RRF" > "$queries"
    else
        printf '%s\n' "pufferfish poisoning" angina > "$queries"
    fi
    if [ ! -s "$queries" ]; then
        echo "left out: the cases, for $meta has no C0004604 in other languages" >&2
        return
    fi
    if import_source "$icd9cm" ICD9CM "the cases"; then
        if [ -n "${WITHOUT:-}" ]; then set -- "$@" --model "$WITHOUT,name=without"; fi
        $alphita evaluate case_table "$@" --terminology "$icd9cm" --set queries="$queries" --set languages=en \
            --set k="$k" -o "$output/cases" --force
    fi
}
