#!/usr/bin/env bash
# BioLORD-2023-M of Remy et al. 2024 (JAMIA 31(9)): BioLORD-2023 distilled into a multilingual encoder -> table 3.
#
#   runs/biolord_multilingual_umls.sh META TEACHER OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF, or a zip file of it: the targets of XL-BEL and, by its source MDR,
#          of the linking sets. It needs a UMLS licence: https://www.nlm.nih.gov/research/umls
# TEACHER  a model of runs/biolord_umls.sh, or a hub name: FremyCompany/BioLORD-2023
# OUTPUT   a folder: umls_eng.terminology, umls_all.terminology, model and the reports
# DATA     the benchmarks' files, for `sts`, `relatedness`, `mednli_s`, `biosyn` and `xl_bel`; `alphita evaluate --about
#          NAME` says where to get them, and what has no folder of its name is left out
#
# By environment: PAIRS, files of names with their translations (the paper: mined by LaBSE in the regional editions of
# SNOMED CT; `alphita bitext` mines some); EDITIONS, terminologies with translations, such as
# `alphita terminology import snomed_ct` makes of them; without either the translations are those of MeSH, SNOMED CT and
# all others in META, which the paper names as an addition to come. LANGUAGES=es,fr,de,nl,da,sv, of the translations;
# GPUS=1; ENCODER, the student; BASELINES, VECTORS (runs/_umls.bash); SETTINGS="key=value ...", of the training, with an
# OUTPUT of their own. The same command goes on with a run that was cut.
# DRY_RUN=1 imports META and says what the training takes in time and memory, here and on a GPU.
#
# Settings: the recipe's defaults are the paper's (appendix B): ten epochs, AdamW, learning rate 2e-5 after 5% of
# warm-up, then linear to 0, weight decay 0.01. The student is paraphrase-multilingual-mpnet-base-v2.
#
# The numbers to match (table 3; STS by Pearson, relatedness by Spearman, linking by accuracy@1):
#
#                 MedSTS  MedNLI-S  BIOSSES  SICK  STS-B   EHR-RelB  UMNSRS-S  UMNSRS-R  MayoSRS
#   mSapBERT        85.6      88.1     90.0  87.0   83.5       42.4      34.2      29.6     45.2
#   BioLORD-2023-M  86.0      92.1     75.4  89.1   85.1       64.1      60.1      54.3     74.8
#
#                 TwiMed-TW  SMM4H  PsyTAR  CADEC  TwiMed-PM    XL-BEL de    es    en
#   mSapBERT           47.4   40.8    51.5   46.8       63.9         51.5  52.7  78.2
#   BioLORD-2023-M     49.3   42.3    63.3   47.0       67.4         57.7  53.1  73.1
set -euo pipefail

# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

usage="usage: runs/biolord_multilingual_umls.sh META TEACHER OUTPUT [DATA]"
teacher=${2:?$usage}
needs="MRCONSO"
begin "${1:?$usage}" "${3:?$usage}" "${4:-}"
encoder=${ENCODER:-sentence-transformers/paraphrase-multilingual-mpnet-base-v2}
languages=${LANGUAGES:-es,fr,de,nl,da,sv}
if [ -n "${PAIRS:-}" ]; then further+=(--set "pairs=$PAIRS"); fi
if [ -n "${EDITIONS:-}" ]; then further+=(--set "editions=$EDITIONS"); fi
umls="$terminologies/umls_eng.terminology"
all="$terminologies/umls_all.terminology"

if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set languages=ENG -o "$umls"
fi
if [ ! -e "$all" ]; then
    $alphita terminology import umls "$meta" -o "$all"
fi
# With pairs or editions of one's own only English names come from META.
taught=$all
if [ -n "${PAIRS:-}${EDITIONS:-}" ]; then taught=$umls; fi

papers="cambridgeltl/SapBERT-UMLS-2020AB-all-lang-from-XLMR"
learn train multilingual --terminology "$taught" --set teacher="$teacher" --set languages="$languages"

rows_beside cls
systems=(--model "$model,name=BioLORD-2023-M" --model "$teacher,name=teacher" ${beside[@]+"${beside[@]}"})
evaluate_biolord "$umls" "${systems[@]}"
# The names of UMLS in all its languages, without plants and animals.
if [ -n "$data" ] && has xl_bel; then
    $alphita evaluate xl_bel "${systems[@]}" --terminology "$all" --data "$data" --set xl_bel.species=without \
        -o "$output/xl_bel" --force
fi
echo "the reports are in $output"
