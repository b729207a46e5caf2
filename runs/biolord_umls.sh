#!/usr/bin/env bash
# BioLORD-2023 of Remy et al. 2024 (JAMIA 31(9)), whole: the English UMLS, generated definitions and scored sentences ->
# a sentence encoder -> the paper's benchmarks.
#
#   runs/biolord_umls.sh META OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF (MRCONSO.RRF, MRREL.RRF, MRDEF.RRF, MRSTY.RRF, ...), or a zip file
#          of it. The paper has 2023AA: some 4 M concepts. It needs a UMLS licence: https://www.nlm.nih.gov/research/umls
# OUTPUT   a folder: umls_eng.terminology, model, model.phases with the model of each phase, and the reports
# DATA     the benchmarks' files, for `sts`, `relatedness`, `mednli_s` and `biosyn`; `alphita evaluate --about NAME` says
#          where to get them, and what has no folder of its name is left out
#
# By environment, what the paper has and META does not; without one of these three the script stops and says where to
# get it, unless LEAVE_OUT names it (LEAVE_OUT="TRIPLES GENERATED"):
#
#   SCORED     files of scored sentences to adapt to, with commas between (the paper: the STS tasks of its benchmarks)
#   TRIPLES    MedNLI's mli_train_v1.jsonl
#   GENERATED  AGCT's train.txt, or the authors' pairs, or a JSONL of {"concept_id", "text"} (`alphita terminology
#              verbalise --prompts` writes the prompts)
#
# and DEV, scored sentences to choose by; BASELINES and VECTORS (runs/_umls.bash); DEVICE (runs/_data.bash); GPUS=1 of
# this machine; DESCRIPTIONS=8, of a concept's relations at most: the epoch of the paper has 25 M pairs and more;
# ENCODER, a hub name (which needs a network) or a folder; SETTINGS="key=value ...", further settings of the training,
# with an OUTPUT of their own.
# DRY_RUN=1 imports META and says what the training takes in time and memory, here and on a GPU.
#
# The same command goes on with a run that was cut, in the phase it was in and from its last checkpoint.
#
# Settings: the recipe's defaults are the paper's (appendix B): contrast of 128 pairs a batch for one epoch; targets of
# 64 numbers, five epochs of self-distillation, 7 seeds in a greedy soup; in each phase AdamW, learning rate 2e-5 after
# 5% of warm-up, then linear to 0, weight decay 0.01. The base is STAMB2. What is not stated is said to be so by
# `alphita train biolord --help`. BioLORD-2022 is SETTINGS="phases=contrast batch=96".
#
# The numbers to match (table 1; STS and STS-B by Pearson, relatedness by Spearman, linking by accuracy@1):
#
#   sts           MedSTS 88.3   BIOSSES 86.1   SICK 90.3   STS-B 87.8       mednli_s   92.4
#   relatedness   EHR-RelB 63.6   UMNSRS similarity 59.2   relatedness 54.4   MayoSRS 74.4
#   linking       TwiMed-TW 49.8   SMM4H 47.7   PsyTAR 66.3   CADEC 63.0   TwiMed-PM 69.4
#
# and of its phases, above STAMB2 (table 2):
#
#             MedSTS  MedNLI-S  BIOSSES  SICK  STS-B   EHR-RelB  UMNSRS-S  UMNSRS-R  MayoSRS
#   STAMB2      85.9      89.4     90.7  90.7   88.0       47.1      43.9      46.7     54.1
#   2022        +0.4      +0.5     -6.7  -1.4   -1.5      +10.4     +12.1      +7.7    +20.6
#   2023-C      +0.4      +2.5     -4.5  -1.0   -1.1      +11.2     +13.7      +8.0    +18.6
#   2023-S      +1.6      +2.7     -5.3  -0.8   -1.0      +15.7     +15.3      +9.1    +15.9
#   2023        +2.4      +3.0     -4.6  -0.4   -0.2      +16.5     +15.3      +7.7    +20.3
#
# The five linking sets are in Portelli et al.'s setting, ranked against MedDRA's preferred terms (of META, if it holds
# MDR), not in the folds of CODER's papers: never compare across them. Table 3 is runs/biolord_multilingual_umls.sh.
set -euo pipefail

# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

needs="MRCONSO MRREL MRDEF MRSTY"
begin "$@"

# Stop where something is missing that the paper trains on. $1: the variable; $2: what it is and where it is got.
wanted() {
    case " ${LEAVE_OUT:-} " in *" $1 "*) return ;; esac
    if [ -z "${!1:-}" ]; then missing+=("  $1  $2"); fi
}
missing=()
wanted SCORED "scored sentences: stsb-en-train.csv of https://github.com/PhilipMay/stsb-multi-mt, SICK.txt of \
https://zenodo.org/records/2787612, MedSTS from its authors on request"
wanted TRIPLES "MedNLI's mli_train_v1.jsonl: https://physionet.org/content/mednli/1.0.0 (credentialed access)"
wanted GENERATED "AGCT's train.txt: https://huggingface.co/datasets/FremyCompany/AGCT-Dataset, or the authors' pairs: \
https://huggingface.co/datasets/FremyCompany/BioLORD-Dataset (licences of SNOMED CT and UMLS)"
if [ ${#missing[@]} -gt 0 ]; then
    echo "error: BioLORD-2023 trains on what is not given here:" >&2
    printf '%s\n' "${missing[@]}" >&2
    echo "give each by environment, or train another model than the paper's: LEAVE_OUT=\"SCORED TRIPLES GENERATED\"" >&2
    exit 2
fi
encoder=${ENCODER:-sentence-transformers/all-mpnet-base-v2}
descriptions=${DESCRIPTIONS:-8}
if [ -n "${SCORED:-}" ]; then further+=(--set "scored=$SCORED"); fi
if [ -n "${TRIPLES:-}" ]; then further+=(--set "triples=$TRIPLES"); fi
if [ -n "${DEV:-}" ]; then further+=(--set "dev_scored=$DEV"); fi
if [ -n "${GENERATED:-}" ]; then further+=(--set "generated=$GENERATED"); fi
umls="$terminologies/umls_eng.terminology"

# The graph: names, definitions and relations in English.
if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set languages=ENG --set relation_label=both -o "$umls"
fi

# BioSyn's models are one for each set; the released ones are of other sets than these.
papers="cambridgeltl/SapBERT-from-PubMedBERT-fulltext"

# The training: all phases.
learn train biolord --terminology "$umls" --set descriptions="$descriptions"

# The evaluation: the base and each phase's model that the run left.
systems=(--model "$encoder,max_length=128,name=STAMB2")
for phase in adapted contrasted contrasted_adapted distilled_0; do
    if [ -d "$model.phases/$phase" ]; then systems+=(--model "$model.phases/$phase,name=$phase"); fi
done
systems+=(--model "$model,name=soup")
rows_beside cls
evaluate_biolord "$umls" "${systems[@]}" ${beside[@]+"${beside[@]}"}
echo "the reports are in $output"
