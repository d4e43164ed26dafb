#!/bin/sh
# Installs verl in a virtual environment (several gigabytes with PyTorch) and
# holds infinirl against its GAE. The output is in README.md.
#
#   interop/verl/check.sh [DIR]   DIR: virtual environment to make or use again
set -eu
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${1:-$work/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import verl, safetensors' 2>/dev/null ||
	"$venv/bin/pip" install --quiet --disable-pip-version-check 'verl==0.9.1' 'torch==2.8.0' safetensors
go build -o "$work/infinirl" ./cmd/infinirl
"$venv/bin/python" interop/verl/check.py "$work/infinirl"
