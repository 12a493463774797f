#!/bin/sh
# Checks the torch backend on this machine's device and measures it, in under eight minutes and without a network.
#   tests/gpu/check.sh [--small] [FILE]    FILE: where the one JSON object goes; else $OUT/gpu.json, else ./gpu.json
# PYTHON names the interpreter. Needs what the extra `torch` installs; the embedded model is used where it is installed.
set -eu
cd "$(dirname "$0")/../.."
PYTHONPATH="app:backends:plugins:profiles:.${PYTHONPATH:+:$PYTHONPATH}"
HF_HUB_OFFLINE=1
export PYTHONPATH HF_HUB_OFFLINE
exec "${PYTHON:-python3}" -m tests.gpu.check "$@"
