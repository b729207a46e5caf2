#!/usr/bin/env bash
# Cross-lingual distillation on open data: MiniLM learns the languages of HPO's translations, and is asked for the
# English concept of translations of concepts none of whose names trained -> OUTPUT/table.md and OUTPUT/table.json.
#
#   runs/multilingual_open.sh HPO.terminology OUTPUT
#
# HPO.terminology    HPO with its translations: obo hpo --packaged, then babelon hp-*.babelon.tsv hp-*.synonyms.tsv
#                    (https://github.com/obophenotype/hpo-translations) with --onto; see docs/terminologies/babelon.md
# OUTPUT             a folder; what is finished in it is not done again, so the same command goes on with a cut run
#
# By environment, with what is taken without them:
#
#   ENCODER=minilm          the teacher, and with more tokens the student
#   LANGUAGES=es,fr,nl,pt,cs,tr,it,de    whose words make the new tokens, and whose pairs train; weights as in it:4 too
#   TOKENS=15000            new ones; the words of English names stay as they are
#   SEEDS=0,1,2
#   LEARNING_RATE=5e-4      the paper's 2e-5 is for a student that knows the languages: embeddings of new tokens hardly
#                           move by it in the steps that HPO has. After 150 steps 1.5e-3 was ahead of 5e-4
#   EPOCHS=10               the paper's; STEPS= so many steps instead, to try it out
#   BATCH=64  DROPOUT=0.0   pairs and names a batch
#   TEMPERATURE=1           above 1: small languages are drawn more often than they have pairs
#   SETTINGS=               further settings of the training: SETTINGS='pairing=synonyms machine=true'
#   THREADS=                of each process; all cores
#
# The paper has nothing to match here: it trained paraphrase-multilingual-mpnet-base-v2 on SNOMED CT (its table 3).
set -euo pipefail

terminology=${1:?usage: runs/multilingual_open.sh HPO.terminology OUTPUT}
output=${2:?usage: runs/multilingual_open.sh HPO.terminology OUTPUT}
alphita=${ALPHITA:-alphita}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
[ -d "$terminology" ] || { echo "error: there is no $terminology" >&2; exit 2; }
encoder=${ENCODER:-minilm}
languages=${LANGUAGES:-es,fr,nl,pt,cs,tr,it,de}
tokens=${TOKENS:-15000}
learning_rate=${LEARNING_RATE:-5e-4}
epochs=${EPOCHS:-10}
steps=${STEPS:-0}
batch=${BATCH:-64}
dropout=${DROPOUT:-0.0}
temperature=${TEMPERATURE:-1}
threads=()
if [ -n "${THREADS:-}" ]; then threads=(--threads "$THREADS"); fi
further=()
for setting in ${SETTINGS:-}; do further+=(--set "$setting"); done
mkdir -p "$output"

# Each of these appears whole or not at all, so what is there is finished.
split="$output/concepts.split"
student="$output/extended"
if [ ! -e "$split" ]; then
    $alphita terminology split "$terminology" --concepts 0.1 --seed 0 -o "$split"
fi
if [ ! -e "$student" ]; then
    # A weight is of the training alone.
    $alphita vocabulary extend --encoder "$encoder" --terminology "$terminology" --split "$split" \
        --languages "$(echo "$languages" | sed 's/:[^,]*//g')" --protect-languages en --size 40000 --keep "$tokens" \
        --seed 0 -o "$student" ${threads[@]+"${threads[@]}"}
fi
models=()
for seed in $(echo "${SEEDS:-0,1,2}" | tr ',' ' '); do
    model="$output/seed$seed"
    if [ ! -e "$model" ]; then
        $alphita train multilingual --terminology "$terminology" --split "$split" --encoder "$student" -o "$model" \
            --set teacher="$encoder" --set languages="$languages" --set seed="$seed" --set epochs="$epochs" \
            --set steps="$steps" --set batch="$batch" --set learning_rate="$learning_rate" --set dropout="$dropout" \
            --set temperature="$temperature" --set dev_pairs=500 --set evaluate_every=1000 --resume \
            ${further[@]+"${further[@]}"} ${threads[@]+"${threads[@]}"}
    fi
    models+=(--after "$model")
done
exec "$python" "$here/multilingual.py" --terminology "$terminology" --split "$split" --output "$output" \
    --before "$encoder" --before "$student" "${models[@]}" ${threads[@]+"${threads[@]}"}
