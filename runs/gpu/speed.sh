#!/usr/bin/env bash
# How fast one GPU trains, encodes and searches: MiniLM and BERT-base, 15 million vectors; some five minutes.
#
#   runs/gpu/speed.sh OUT.json [VECTORS] [SECONDS] [ROWS]
#
# VECTORS, SECONDS of each measurement and ROWS a step may be small, to try it on a processor: 20000 1 32. What OUT.json
# holds is said in runs/gpu/speed.py; docs/speed.md shows it.
set -euo pipefail

output=${1:?usage: runs/gpu/speed.sh OUT.json [VECTORS] [SECONDS] [ROWS]}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
"$python" "$here/speed.py" --output "$output" --vectors "${2:-15000000}" --seconds "${3:-30}" \
    --rows "${4:-256,2048}"
