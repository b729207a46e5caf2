#!/usr/bin/env bash
# The ablations of CODER's two papers: table 5 of Yuan et al. 2022 and table 6 of Yuan, Zhao and Yu 2020, each row a
# whole run of runs/coder_eng_umls.sh or runs/coder_transe_eng_umls.sh, whose heads have the numbers to match.
#
#   runs/coder_ablation_umls.sh META OUTPUT [DATA]
#
# META     as those scripts take it
# OUTPUT   a folder: a folder for each row, ROW/model and its reports
# DATA     the benchmarks' files, as those scripts take them
#
# By environment: ROWS, some of coder, coder_without, coder_transe_similarity (table 5), ms_rel_sty, ms_rel, ms_sty, ms
# (table 6), with blanks between; all by default; and what those scripts take, ENCODER but once for both. Those of a
# paper share their terminologies. What is finished is kept, and a run that was cut goes on.
# DRY_RUN=1 imports META and says what each training takes in time and memory, here and on a GPU.
set -euo pipefail

meta=${1:?usage: runs/coder_ablation_umls.sh META OUTPUT [DATA]}
output=${2:?usage: runs/coder_ablation_umls.sh META OUTPUT [DATA]}
data=${3:-}
here=$(cd "$(dirname "$0")" && pwd)

# $1: the row; $2: its script; $3: its settings.
row() {
    case " ${ROWS:-$1} " in *" $1 "*) ;; *) return 0 ;; esac
    TERMINOLOGIES="$output/$2" SETTINGS="$3 ${SETTINGS:-}" "$here/$2_umls.sh" "$meta" "$output/$1" ${data:+"$data"}
}

row coder coder_eng ""
row coder_without coder_eng "mu=0"
row coder_transe_similarity coder_eng "relation_similarity=transe"
row ms_rel_sty coder_transe_eng "semantic_type_weight=0.1"
row ms_rel coder_transe_eng ""
row ms_sty coder_transe_eng "semantic_type_weight=0.1 mu=0"
row ms coder_transe_eng "mu=0"
