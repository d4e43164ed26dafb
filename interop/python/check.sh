#!/bin/sh
# Installs the stock safetensors package in a virtual environment and checks
# that Python and infinirl read each other's batches.
#
#   interop/python/check.sh [DIR]   DIR: virtual environment to make or use again
set -eu
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${1:-$work/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import numpy, safetensors' 2>/dev/null ||
	"$venv/bin/pip" install --quiet --disable-pip-version-check 'safetensors>=0.4,<1' 'numpy>=1.26,<3'
go build -o "$work/infinirl" ./cmd/infinirl
"$venv/bin/python" interop/python/check.py "$work/infinirl"
