#!/usr/bin/env bash
# The Italian system of Amore Bondarenko, Ferrod and Di Caro (2022) on open data, for which no licence is needed: its
# tables 2 to 5 in English, with as few names a concept as Italian has in the UMLS; then Italian itself, asked for the
# English concepts of Italian names held out of training; and the tokens of an Italian and a Spanish medical word.
#
#   runs/italian_open.sh DATA OUTPUT
#
# DATA      a folder with, each gzipped (.gz) or not,
#             open_graph/terms.tsv          id, lang, term, type (pref, syn, syn_broad, syn_narrow, syn_related), status
#                                           (OFFICIAL, CANDIDATE, CANDIDATE/MT), source: open ontologies, ICD-9-CM in
#                                           Italian and English under one code, HPO's translations
#             open_graph/relations.tsv      head, relation, tail, source; exact_match says what is one concept
#             text/e3c/LANGUAGE.layer*.jsonl      clinical texts, field "text", for English, Italian and Spanish
#             benchmarks/relatedness/       UMNSRS_relatedness.csv and others (`alphita evaluate --about relatedness`)
# OUTPUT    a folder; what is finished in it is not done again, so the same command goes on with a cut run
#
# By environment, with what is taken without them:
#
#   STEPS=300               of a contrastive training; the others follow from it (runs/italian.py); 0: the paper's
#   SEEDS=0,1,2             the outer loop;  GRAPH_SEEDS=0  of the graph models
#   GRAPH_MODELS=transe,complex,rotate,simple       those that are trained; ROWS may need all
#   ENCODER=minilm          what all rows start from
#   EXT='learning_rate=2e-4'    settings of ext_bert, MARGIN='learning_rate=1e-4 accumulation=2' of the contrastive
#   INJECTION='learning_rate=1e-4 linking=mean'  training, and of the injection: for so few steps, ours. GRAPH=  of graphs
#   ROWS=                   of the English part; all (`python runs/italian.py rows`)
#   ITALIAN_ROWS=base,ext,v1,v2,v3,injected,pipelined
#   CONCEPTS=20000          concepts that are clustered, the same for all rows
#   PART=                   of the English part, what is below one concept: PART=HP:0000118, phenotypes, is a quarter
#                           of the names and of the time; OUTPUT/english_HP_0000118. The graph models stay of all
#   ENTITIES=               rows, as base,ext,v3: their English encoders of the first seed are fine-tuned to tag the
#                           clinical entities of E3C's texts, OUTPUT/entities. All rows' models are then kept
#   TAGGING='runs=3 epochs=8 learning_rate=3e-4 batch_size=16 layer_decay=0.9'      settings of that
#   THREADS=                of training and scoring; all cores
#
# English: 1.22 names a concept are kept of the English part, chosen by chance, with all concepts and relations; names
# that were cut away are to be found. HPO's main branches are the semantic types (MCSM). Italian: the concepts with an
# Italian name, with their English ones; the Italian names of a fifth of them are held out, and ranked among the English.
# The paper's numbers are for the Italian UMLS (runs/italian_umls.sh); here its orderings are looked at.
set -euo pipefail

data=${1:?usage: runs/italian_open.sh DATA OUTPUT}
output=${2:?usage: runs/italian_open.sh DATA OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
encoder=${ENCODER:-minilm}
threads=()
if [ -n "${THREADS:-}" ]; then threads=(--threads "$THREADS"); fi

# shellcheck source=runs/_data.bash
source "$here/_data.bash"

# Everything is looked for before the first hour of work.
terms=$(input open_graph/terms.tsv)
relations=$(input open_graph/relations.tsv)
texts Spanish
spanish=("${found[@]}")
texts Italian
italian=("${found[@]}")
texts English
english_text=() italian_text=()
for file in "${found[@]}"; do english_text+=(--corpus "$file"); done
for file in "${italian[@]}"; do italian_text+=(--corpus "$file"); done
if [ -n "${ENTITIES:-}" ]; then
    annotations=$(input benchmarks/e3c_concepts/e3c_english.tsv)
    annotated=$(input text/e3c/English.layer2.jsonl)
fi
[ -d "$data/benchmarks" ] || { echo "error: there is no $data/benchmarks" >&2; exit 2; }
mkdir -p "$output"

# Each of these appears whole or not at all, so what is there is finished.
typed="$output/hpo.terminology"
read="$output/read.terminology"
open="$output/open.terminology"
english="$output/en.terminology"
if [ ! -e "$open" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$python" "$here/open_vocabularies.py" graph "$terms" "$relations" -o "$work"
    if [ ! -e "$typed" ]; then
        $alphita terminology import obo hpo --packaged --set semantic_type=HP:0000118 -o "$typed"
    fi
    if [ ! -e "$read" ]; then
        $alphita terminology import table "$work/terms.tsv" "$work/relations.tsv" --set quote= -o "$read"
    fi
    # HPO first, for its semantic types.
    $alphita terminology merge "$typed" "$read" --mappings "$work/exact.sssom.tsv" -o "$open"
fi
if [ ! -e "$english" ]; then
    $alphita terminology subset "$open" --language en --no-retired -o "$english"
fi

bench() { "$python" "$here/italian.py" "$@" ${threads[@]+"${threads[@]}"}; }

part=""
if [ -n "${PART:-}" ]; then
    part="_${PART//[!A-Za-z0-9]/_}"
    if [ ! -e "$output/en$part.terminology" ]; then
        $alphita terminology subset "$english" --descendants-of "$PART" -o "$output/en$part.terminology"
    fi
    english="$output/en$part.terminology"
fi
scarce="$output/scarce$part.terminology" cut="$output/cut$part.split"
"$python" "$here/italian.py" scarce "$english" -o "$scarce" --held-out "$cut"
settings=()
for setting in ${GRAPH:-}; do settings+=(--set "$setting"); done
bench graph --terminology "$open" -o "$output/graph" --data "$data/benchmarks" --seeds "${GRAPH_SEEDS:-0}" \
    --models "${GRAPH_MODELS:-transe,complex,rotate,simple}" --score mcsm.candidates=types \
    ${settings[@]+"${settings[@]}"}

shared=(--encoder "$encoder" --graphs "$output/graph" --seeds "${SEEDS:-0,1,2}" --steps "${STEPS:-300}")
for setting in ${EXT-learning_rate=2e-4}; do shared+=(--ext "$setting"); done
for setting in ${MARGIN-learning_rate=1e-4 accumulation=2}; do shared+=(--margin "$setting"); done
for setting in ${INJECTION-learning_rate=1e-4 linking=mean}; do shared+=(--injection "$setting"); done
rows=()
if [ -n "${ROWS:-}" ]; then rows=(--rows "$ROWS"); fi
if [ -n "${ENTITIES:-}" ]; then rows+=(--keep-models); fi

bench run --terminology "$scarce" "${english_text[@]}" -o "$output/english$part" "${shared[@]}" \
    ${rows[@]+"${rows[@]}"} --language en --cut "$cut" --data "$data/benchmarks" \
    --benchmarks mcsm,clustering_pairs,relatedness,held_out_synonyms,misspelt_names \
    --score clustering_pairs.max_concepts="${CONCEPTS:-20000}"

entities="$output/entities$part"
if [ -n "${ENTITIES:-}" ] && [ ! -e "$entities" ]; then
    "$python" "$here/e3c_entities.py" "$annotations" "$annotated" -o "$output/e3c"
    seeds=${SEEDS:-0,1,2}
    tagging=()
    for row in ${ENTITIES//,/ }; do
        case $row in
        base) tagging+=(--model "$encoder,pooling=mean,name=base") ;;
        *) tagging+=(--model "$output/english$part/$row/${seeds%%,*}/model,name=$row") ;;
        esac
    done
    for setting in ${TAGGING-runs=3 epochs=8 learning_rate=3e-4 batch_size=16 layer_decay=0.9}; do
        tagging+=(--set "ner.$setting")
    done
    $alphita evaluate ner "${tagging[@]}" --set ner.datasets=E3C --data "$output/e3c" --output "$entities" \
        ${threads[@]+"${threads[@]}"}
fi

"$python" "$here/italian.py" bilingual "$open" -o "$output/it.terminology" --held-out "$output/it.split" \
    --language it --target-language en
bench run --terminology "$output/it.terminology" "${italian_text[@]}" -o "$output/italian" "${shared[@]}" \
    --rows "${ITALIAN_ROWS:-base,ext,v1,v2,v3,injected,pipelined}" --language it --target-language en \
    --split "$output/it.split" --benchmarks held_out_translations,misspelt_names

# Tokens a word. Of the training one step is enough here: the vocabulary is learnt before it.
tokens=("$python" "$here/tokens_per_word.py" -o "$output/tokens")
for language in it es; do
    if [ $language = it ]; then found=("${italian[@]}"); else found=("${spanish[@]}"); fi
    listed=$(IFS=,; echo "${found[*]}")
    extended="$output/tokens/$language"
    if [ ! -e "$extended" ]; then
        mkdir -p "$output/tokens"
        $alphita train ext_bert --terminology "$open" --encoder "$encoder" --output "$extended" --resume \
            --set languages=$language --set corpus="$listed" --set dev_share=0 --set steps=1 --set warmup_steps=0
    fi
    tokens+=(--language $language --before "$encoder" --after "$extended" --terminology "$open")
    for file in "${found[@]}"; do tokens+=(--corpus "$file"); done
done
"${tokens[@]}"
echo "the tables are in $output/english$part, $output/italian and $output/tokens"
