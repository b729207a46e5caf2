#!/usr/bin/env bash
# CODER_ENG of Yuan et al. 2022 (J Biomed Inform 126:103983), whole: the English UMLS -> a term encoder from PubMedBERT
# -> the paper's benchmarks.
#
#   runs/coder_eng_umls.sh META OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF (MRCONSO.RRF, MRREL.RRF, MRSTY.RRF, ...), or a zip file of it. The
#          paper has 2020AA: 4.27 M concepts, 15.48 M terms, 87.89 M relations. It needs a UMLS licence:
#          https://www.nlm.nih.gov/research/umls
# OUTPUT   a folder: umls_eng.terminology, snomed.terminology, model, and the reports: benchmarks, pictures, cases
# DATA     the benchmarks' files in the folders cadec, psytar, relation_classification;
#          `alphita evaluate --about NAME` says where to get them, and what has no folder is left out
#
# By environment: DEVICE (runs/_data.bash); GPUS=1 of this machine; STEPS=100000; ENCODER, a hub name (which needs a
# network) or a folder;
# SETTINGS="key=value ...", further settings of the training, with an OUTPUT of their own; BASELINES, VECTORS and
# WITHOUT, what the reports lay beside the model (runs/_umls.bash).
# DRY_RUN=1 imports META and says what the training takes in time and memory, here and on a GPU.
#
# The same command goes on with a run that was cut: what is finished is kept, and training continues from its last
# checkpoint. It may go on with another number of GPUs, for a batch is shared among them and stays the same.
#
# Settings: the recipe's defaults are the paper's (section 4.2): k = 128 triples a batch, each 8 times (m), 8 batches a
# step, AdamW, learning rate 2e-5 after 10,000 steps of warm-up, then linear to 0; [CLS], 32 tokens; alpha 2, beta 50,
# lambda 0.5, eps 0.1, mu 1. Set here: the steps; M_r in full, as section 3.3 has it (some 9 GB with its gradients and
# AdamW's moments for 1,000 relations; SETTINGS=relation_matrix=diagonal takes almost none); no inverse relations, for
# UMLS lists both directions. Weight decay, clipping and the start of M_r are not stated; see the recipe's head.
#
# The numbers to match (tables 1, 3, 4, 9 and 10; [CLS] / mean):
#
#   Cadec    accuracy@1 58.53 / 59.77   @3 75.96 / 76.24
#   PsyTAR   accuracy@1 55.27 / 53.92   @3 73.31 / 71.12
#   MCSM     PS 10.3 / 10.2   DS 9.5 / 9.4   NP 9.6 / 9.4   CD 10.7 / 10.7   FD 9.5 / 9.6   IP 10.1 / 10.1
#   DDBRC    frozen 96.05   fine-tuned 98.85   ([CLS]; the data are not public)
#
# Its ablation (table 5, mean, @1 and @3):
#
#   without S_rel           SETTINGS=mu=0                         Cadec 54.18  71.40   PsyTAR 50.58  67.22
#   with TransE-like S_rel  SETTINGS=relation_similarity=transe   Cadec 57.35  73.61   PsyTAR 51.35  69.23
#
# The released folds hold 181 (Cadec) and 167 (PsyTAR) targets; the text counts 1,029 and 618.
set -euo pipefail
# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

begin "$@"
steps=${STEPS:-100000}
encoder=${ENCODER:-microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract}
umls="$terminologies/umls_eng.terminology"

# Obsolete terms train too, as in the released code. Relations are labelled by REL and RELA together (section 4.1).
if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set languages=ENG --set relation_label=both \
        --set obsolete_trains=true -o "$umls"
fi

# What the paper's tables have beside it, as far as it can be had by name.
papers="dmis-lab/biobert-v1.1 emilyalsentzer/Bio_ClinicalBERT allenai/scibert_scivocab_uncased"
papers+=" bionlp/bluebert_pubmed_mimic_uncased_L-12_H-768_A-12"
papers+=" microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract"
papers+=" cambridgeltl/SapBERT-from-PubMedBERT-fulltext"

import_snomed
learn train coder --terminology "$umls" --set steps="$steps" --set relation_matrix=full \
    --set checkpoint_minutes=30 --set inverse_relations=false
evaluate_all "$umls"
