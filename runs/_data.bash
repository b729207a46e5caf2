# shellcheck shell=bash
#
# How the scripts find their files. They source it; those on open data with `data` set to the folder.

# By environment, in all of them: DEVICE=cpu, cuda or cuda:N, without which what trains takes a GPU where there is one.
case ${DEVICE:-} in
    "" | cuda) ;;
    cpu) export CUDA_VISIBLE_DEVICES= ;;
    cuda:[0-9]*) export CUDA_VISIBLE_DEVICES=${DEVICE#cuda:} ;;
    *) echo "error: DEVICE=$DEVICE is none of cpu, cuda, cuda:N" >&2; exit 2 ;;
esac

# Print the path of the file of that name, gzipped or not.
input() {
    if [ -e "$data/$1" ]; then
        echo "$data/$1"
    elif [ -e "$data/$1.gz" ]; then
        echo "$data/$1.gz"
    else
        echo "error: there is no $data/$1 and no $data/$1.gz; the head of $0 says what it holds" >&2
        exit 2
    fi
}

# See that a release of UMLS has the files that a run cannot do without, before it runs for hours; of a zip file the
# import tells. $1: the folder; the rest: MRCONSO, ...
release() {
    local file
    [ -e "$1" ] || { echo "error: there is no $1" >&2; exit 2; }
    [ -d "$1" ] || return 0
    for file in "${@:2}"; do
        if [ -z "$(find -L "$1" -iname "$file.RRF*" -print -quit)" ]; then
            echo "error: $1 has no $file.RRF, which this run needs: give the folder META of a whole release" >&2
            exit 2
        fi
    done
}

# Set `found` to all texts of a language.
texts() {
    local file
    found=()
    for file in "$data/text/e3c/$1".layer*.jsonl "$data/text/e3c/$1".layer*.jsonl.gz; do
        if [ -e "$file" ]; then found+=("$file"); fi
    done
    if [ ${#found[@]} -eq 0 ]; then
        echo "error: there is no $data/text/e3c/$1.layer*.jsonl, gzipped or not" >&2
        exit 2
    fi
}

# Set `found` to all documents of a folder of one's own.
documents() {
    local file
    found=()
    for file in "$1"/*.txt "$1"/*.txt.gz "$1"/*.jsonl "$1"/*.jsonl.gz; do
        if [ -e "$file" ]; then found+=("$file"); fi
    done
    if [ ${#found[@]} -eq 0 ]; then
        echo "error: there is no *.txt or *.jsonl, gzipped or not, in $1" >&2
        exit 2
    fi
}
