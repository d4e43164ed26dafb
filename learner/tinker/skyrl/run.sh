#!/usr/bin/env bash
# Tries the Tinker client against a real SkyRL server: PyPI's skyrl 0.3.0 with JAX on the
# CPU, whose base model is that of key-to-door.
#
# usage: run.sh [FOLDER [COMMAND …]]
#
# The server is installed into FOLDER (a temporary one, removed at the end, if none is
# given), 0.9 GB; what is there already is used again. COMMAND runs from the top of the
# repository with INFINIRL_TINKER_URL and INFINIRL_TINKER_MODEL; without one, TestRealServer
# does. The server listens on 127.0.0.1 alone and is ended in any case; its log is
# FOLDER/server.log. Wants Go, Python 3 with venv, and Python 3.12: PYTHON names it where uv
# does not find one (and cannot fetch one).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-}
[ $# -eq 0 ] || shift
temporary=
if [ -z "$folder" ]; then
	folder=$(mktemp -d)
	temporary=$folder
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
server=

start() {
	PATH="$here/bin:$PATH" PYTHONPATH="$here/stubs" PYTHONDONTWRITEBYTECODE=1 SKYRL_PYTHON="$folder/env/bin/python" \
		JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR="$folder/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 HF_HUB_OFFLINE=1 \
		"$here/bin/uv" run -- python -m skyrl.tinker.api --base-model "$model" --backend jax --host 127.0.0.1 --port "$port" \
		--checkpoints-base "$folder/checkpoints" --database-url "sqlite:///$folder/server.db" \
		--backend-config '{"max_lora_adapters": 10, "max_lora_rank": 8, "sample_max_num_sequences": 64, "train_micro_batch_size": 16}' \
		>>"$folder/server.log" 2>&1 &
	server=$!
}

# ready waits until the server makes models, or has ended.
ready() {
	"$folder/skyrl" ready "$INFINIRL_TINKER_URL" "$model" &
	local asking=$!
	wait -n "$asking" "$server" || true
	if ! kill -0 "$server" 2>/dev/null; then
		kill "$asking" 2>/dev/null || true
		echo "the server has ended:" >&2
		tail -n 30 "$folder/server.log" >&2
		return 1
	fi
	wait "$asking"
}

# stop ends the server and its engine, which are a group of processes.
stop() {
	[ -n "$server" ] || return 0
	kill -TERM -- "-$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	kill -KILL -- "-$server" 2>/dev/null || true
	server=
}

finish() {
	stop
	[ -z "$temporary" ] || rm -rf "$temporary"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ ! -e "$folder/installed" ]; then
	[ -d "$folder/uv" ] || python3 -m venv "$folder/uv"
	"$folder/uv/bin/pip" install --quiet --disable-pip-version-check uv
	"$folder/uv/bin/uv" venv --quiet --allow-existing --python "${PYTHON:-3.12}" "$folder/env"
	"$folder/uv/bin/uv" pip install --quiet --python "$folder/env/bin/python" --override "$here/override.txt" \
		"skyrl[tinker,jax]==0.3.0" tinker==0.24.1
	touch "$folder/installed"
fi
cd "$here/../../.."
go build -o "$folder/skyrl" ./learner/tinker/skyrl
model=$folder/keytodoor
"$folder/skyrl" export keytodoor "$model"
port=$("$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export INFINIRL_TINKER_URL=http://127.0.0.1:$port INFINIRL_TINKER_MODEL=$model

rm -rf "$folder"/checkpoints "$folder"/server.db* "$folder"/server.log
set -m # a group of its own for the server
start
set +m
ready
if [ $# -gt 0 ]; then
	"$@"
else
	go test ./learner/tinker -run 'TestRealServer' -count 1 -v
fi
