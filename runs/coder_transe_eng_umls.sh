#!/usr/bin/env bash
# CODER_ENG of the first version (Yuan, Zhao and Yu 2020, arXiv:2011.02947v1), whole: the English UMLS -> a term encoder
# from BioBERT v1.1 -> the paper's benchmarks.
#
#   runs/coder_transe_eng_umls.sh META OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF (MRCONSO.RRF, MRREL.RRF, MRSTY.RRF, ...), or a zip file of it. The
#          paper has 2020AA: 4.27 M concepts, 15.48 M terms, 87.89 M relations. It needs a UMLS licence:
#          https://www.nlm.nih.gov/research/umls
# OUTPUT   a folder: umls_eng.terminology, snomed.terminology, model, and the reports: benchmarks, pictures, cases
# DATA     the benchmarks' files in the folders cadec, psytar, relation_classification;
#          `alphita evaluate --about NAME` says where to get them, and what has no folder is left out
#
# By environment: DEVICE (runs/_data.bash); GPUS=1 of this machine; STEPS=1000000; ENCODER, a hub name (which needs a
# network) or a folder;
# SETTINGS="key=value ...", further settings of the training, with an OUTPUT of their own; BASELINES, VECTORS and
# WITHOUT, what the reports lay beside the model (runs/_umls.bash).
# DRY_RUN=1 imports META and says what the training takes in time and memory, here and on a GPU.
#
# The same command goes on with a run that was cut: what is finished is kept, and training continues from its last
# checkpoint. It may go on with another number of GPUs, for a batch is shared among them and stays the same.
#
# Settings: the recipe's defaults are the paper's (appendix B.1): 256 terms a batch, at most 8 names a concept, 8
# batches a step, learning rate 2e-5, [CLS], 32 tokens; alpha 2, beta 50, lambda 0.5, eps 0.1; TransE's margin 1, mu 1.
# Set here: the steps (the released loop counts each batch as one: STEPS=125000 is what it does); no inverse relations,
# for UMLS lists both directions; corrupted tails unchecked, as released. Optimiser, warm-up and schedule are not
# stated; the recipe takes those of the final version.
#
# The numbers to match (tables 1, 3, 4 and 9; [CLS] / mean):
#
#   Cadec    recall@1 54.76 / 55.23   @3 70.66 / 72.15
#   PsyTAR   recall@1 40.86 / 43.55   @3 57.92 / 62.47
#   MCSM     PS 10.5 / 10.4   DS 9.6 / 9.7   NP 10.3 / 10.0   CD 10.6 / 10.5   FD 9.8 / 9.8   IP 10.2 / 10.2
#   DDBRC    frozen 95.50   fine-tuned 98.82   ([CLS]; the data are not public)
#
# Its ablation (table 6, mean; with STY: SETTINGS=semantic_type_weight=0.1, without REL: SETTINGS=mu=0, or both):
#
#              Cadec @1, @3     PsyTAR @1, @3   MCSM   DDBRC frozen, fine-tuned
#   MS+REL+STY  48.81  64.39     38.94  57.41    10.6   95.92  98.90
#   MS+REL      55.23  72.15     43.55  62.47    10.1   95.50  98.82
#   MS+STY      46.44  60.27     35.29  48.50    10.9   95.57  98.80
#   MS          52.56  65.96     42.25  56.70     9.2   94.64  98.85
#
# The released code reads the vector off BERT's pooler, with padding attended, and we off [CLS] as the text says.
set -euo pipefail
# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

begin "$@"
steps=${STEPS:-1000000}
encoder=${ENCODER:-dmis-lab/biobert-v1.1}
umls="$terminologies/umls_eng.terminology"

# Obsolete terms train, and relations are labelled by RELA, as in the released code.
if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set languages=ENG --set relation_label=rela \
        --set obsolete_trains=true -o "$umls"
fi

# What the paper's tables have beside it, as far as it can be had by name.
papers="google-bert/bert-base-cased dmis-lab/biobert-v1.1 emilyalsentzer/Bio_ClinicalBERT"
papers+=" microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract"
papers+=" microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract-fulltext"

import_snomed
learn train coder_transe --terminology "$umls" --set steps="$steps" --set inverse_relations=false
evaluate_all "$umls"
