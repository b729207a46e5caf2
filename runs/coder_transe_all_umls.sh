#!/usr/bin/env bash
# CODER_ALL of the first version (Yuan, Zhao and Yu 2020, arXiv:2011.02947v1), whole: the UMLS in all its languages -> a
# term encoder from mBERT (cased) -> the paper's benchmarks.
#
#   runs/coder_transe_all_umls.sh META OUTPUT [DATA]
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
# Settings: the recipe's defaults are the paper's (appendix B.1): 256 terms a batch, at most 8 names a concept, 8
# batches a step, learning rate 2e-5, [CLS], 32 tokens; alpha 2, beta 50, lambda 0.5, eps 0.1; TransE's margin 1, mu 1.
# Set here: the steps (the released loop counts each batch as one: STEPS=125000 is what it does); no inverse relations,
# for UMLS lists both directions; corrupted tails unchecked, as released. Optimiser, warm-up and schedule are not
# stated; the recipe takes those of the final version.
#
# The numbers to match (tables 1 to 4 and 9; [CLS] / mean):
#
#   Cadec    recall@1 52.24 / 53.02   @3 69.00 / 70.86
#   PsyTAR   recall@1 41.28 / 41.99   @3 59.03 / 62.32
#   MANTRA   Medline  es 78.2 / 78.8   fr 72.2 / 74.8   nl 74.8 / 77.4   de 77.8 / 78.7     ("one-line score")
#            EMEA     es 76.4 / 75.4   fr 75.0 / 73.2   nl 75.5 / 75.5   de 75.3 / 73.9
#            Patent   fr 79.7 / 79.6   de 76.2 / 76.9
#   MCSM     PS 10.5 / 10.0   DS 9.6 / 9.2   NP 9.6 / 9.0   CD 10.7 / 10.4   FD 9.6 / 9.2   IP 10.1 / 9.8
#   DDBRC    frozen 95.45   fine-tuned 98.73   ([CLS]; the data are not public)
#
# MANTRA is ranked against the English names of SNOMED CT, MeSH and MedDRA (801,038 concepts in the paper).
# The released code reads the vector off BERT's pooler, with padding attended, and we off [CLS] as the text says.
set -euo pipefail
# shellcheck source=runs/_umls.bash
source "$(dirname "$0")/_umls.bash"

begin "$@"
steps=${STEPS:-1000000}
encoder=${ENCODER:-google-bert/bert-base-multilingual-cased}
umls="$terminologies/umls_all.terminology"

# Obsolete terms train, and relations are labelled by RELA, as in the released code; names in all languages.
if [ ! -e "$umls" ]; then
    $alphita terminology import umls "$meta" --set relation_label=rela --set obsolete_trains=true -o "$umls"
fi

# What the paper's tables have beside it, as far as it can be had by name.
papers="google-bert/bert-base-multilingual-cased"

import_snomed
learn train coder_transe --terminology "$umls" --set steps="$steps" --set inverse_relations=false
evaluate_all "$umls" mantra
