#!/bin/sh
# Compares chat templates rendered here with the same rendered by Python's jinja2
# (pip install jinja2), over the real templates that the engine's module brings
# along, or those given as arguments.
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- "$(go list -m -f '{{.Dir}}' github.com/ardanlabs/jinja)"/testdata/templates/*.jinja
cases=$(mktemp)
trap 'rm -f "$cases"' EXIT
python3 reference.py "$@" >"$cases"
go run . "$cases"
