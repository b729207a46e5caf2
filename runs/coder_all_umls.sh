#!/usr/bin/env bash
# CODER_ALL of Yuan et al. 2022 (J Biomed Inform 126:103983), whole: the UMLS in all its languages -> a term encoder
# from mBERT -> the paper's benchmarks.
#
#   runs/coder_all_umls.sh META OUTPUT [DATA]
#
# META     the folder META of a UMLS release in RRF (MRCONSO.RRF, MRREL.RRF, MRSTY.RRF, ...), or a zip file of it. The
#          paper has 2020AA: 4.27 M concepts, 15.48 M terms, 87.89 M relations. It needs a UMLS licence:
#          https://www.nlm.nih.gov/research/umls
# OUTPUT   a folder: umls_all.terminology, snomed.terminology, model, and the reports: benchmarks, pictures, cases
# DATA     the benchmarks' files in the folders cadec, psytar, mantra, relation_classification;
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
# Settings: the recipe's defaults are the paper's (section 4.2): k = 128 triples a batch, each 8 times (m), 8 batches a
# step, AdamW, learning rate 2e-5 after 10,000 steps of warm-up, then linear to 0; [CLS], 32 tokens; alpha 2, beta 50,
# lambda 0.5, eps 0.1, mu 1. Set here: the steps; M_r in full, as section 3.3 has it (some 9 GB with its gradients and
# AdamW's moments for 1,000 relations; SETTINGS=relation_matrix=diagonal takes almost none); no inverse relations, for
# UMLS lists both directions. Weight decay, clipping and the start of M_r are not stated; see the recipe's head.
#
# The numbers to match (tables 1 to 4, 9 and 10; [CLS] / mean):
#
#   Cadec    accuracy@1 52.93 / 56.02   @3 66.53 / 72.11
#   PsyTAR   accuracy@1 38.36 / 43.86   @3 52.48 / 60.20
#   MANTRA   Medline  es 70.1 / 70.4   fr 58.6 / 58.9   nl 58.6 / 59.5   de 69.0 / 68.4     ("one-line score")
#            EMEA     es 68.1 / 68.1   fr 62.9 / 61.1   nl 61.7 / 62.9   de 65.3 / 65.6
#            Patent   fr 70.8 / 71.1   de 69.0 / 70.2
#   MCSM     PS 10.4 / 10.2   DS 9.5 / 9.5   NP 9.8 / 10.1   CD 10.7 / 10.6   FD 9.7 / 9.8   IP 10.1 / 10.3
#   DDBRC    frozen 95.82   fine-tuned 98.81   ([CLS]; the data are not public)
#
# MANTRA is ranked against the English names of SNOMED CT, MeSH and MedDRA (801,038 concepts in the paper).
# The released folds hold 181 (Cadec) and 167 (PsyTAR) targets; the text counts 1,029 and 618.
set -euo pipefail
# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

begin "$@"
steps=${STEPS:-1000000}
encoder=${ENCODER:-google-bert/bert-base-multilingual-cased}
umls="$terminologies/umls_all.terminology"

# Obsolete terms train too, as in the released code. Relations are labelled by REL and RELA together (section 4.1);
# names are of all languages.
if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set relation_label=both --set obsolete_trains=true -o "$umls"
fi

# What the paper's tables have beside it, as far as it can be had by name.
papers="google-bert/bert-base-multilingual-cased"

import_snomed
learn train coder --terminology "$umls" --set steps="$steps" --set relation_matrix=full \
    --set checkpoint_minutes=30 --set inverse_relations=false
evaluate_all "$umls" mantra
