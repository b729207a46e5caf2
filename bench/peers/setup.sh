#!/bin/sh
# Make each peer's environment under a folder: bench/peers/setup.sh VENVS [PEER ...]
# PYTHON names the interpreter (3.11 is the tested one).
set -eu
[ $# -ge 1 ] || { echo "usage: setup.sh VENVS [scispacy|gilda|rapidfuzz|bm25 ...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
venvs=$1
shift
[ $# -gt 0 ] || set -- scispacy gilda rapidfuzz bm25
for peer; do
    "${PYTHON:-python3}" -m venv "$venvs/$peer"
    "$venvs/$peer/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/$peer.txt"
    echo "$venvs/$peer"
done
