#!/usr/bin/env bash
# Tries the Tinker client against a real SkyRL server: PyPI's skyrl 0.3.0 with JAX on the
# CPU, whose base model is that of key-to-door.
#
# usage: run.sh [FOLDER [COMMAND …]]
#
# The server is installed into FOLDER (a temporary one, removed at the end, if none is
# given), 0.9 GB; what is there already is used again. COMMAND runs from the top of the
# repository with INFINIRL_TINKER_URL and INFINIRL_TINKER_MODEL; without one, TestRealServer
# does, then ten steps of key-to-door, which have to make it better, then a run that is
# interrupted, loses its server, is killed, and goes on each time. The server listens on
# 127.0.0.1 alone and is ended in any case; its log is FOLDER/server.log. Wants Go, Python 3
# with venv, and Python 3.12: PYTHON names it where uv neither finds nor fetches one.
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
running=

# start starts a server with room for a number of adapters, one of which is the base model,
# in a group of processes of its own. Every pass costs what all the adapters would.
start() { # ADAPTERS
	set -m
	PATH="$here/bin:$PATH" PYTHONPATH="$here/stubs" PYTHONDONTWRITEBYTECODE=1 SKYRL_PYTHON="$folder/env/bin/python" \
		JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR="$folder/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 HF_HUB_OFFLINE=1 \
		"$here/bin/uv" run -- python -m skyrl.tinker.api --base-model "$model" --backend jax --host 127.0.0.1 --port "$port" \
		--checkpoints-base "$folder/checkpoints" --database-url "sqlite:///$folder/server.db" \
		--session-timeout-sec 60 --session-cleanup-interval-sec 5 \
		--backend-config '{"max_lora_adapters": '"$1"', "max_lora_rank": 8, "sample_max_num_sequences": 64, "train_micro_batch_size": 16}' \
		>>"$folder/server.log" 2>&1 &
	server=$!
	set +m
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

# stop ends the server and its engine.
stop() {
	[ -n "$server" ] || return 0
	kill -TERM -- "-$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	kill -KILL -- "-$server" 2>/dev/null || true
	server=
}

# begin starts a command in a group of its own; ended waits for it, and gives its status.
begin() {
	set -m
	"$@" </dev/null &
	running=$!
	set +m
}
ended() {
	local pid=$running status=0
	wait "$pid" 2>/dev/null || status=$?
	running=
	return "$status"
}

finish() {
	[ -z "$running" ] || kill -KILL -- "-$running" 2>/dev/null || true
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
go build -o "$folder/infinirl" ./cmd/infinirl
model=$folder/keytodoor
"$folder/skyrl" export keytodoor "$model"
port=$("$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export INFINIRL_TINKER_URL=http://127.0.0.1:$port INFINIRL_TINKER_MODEL=$model

rm -rf "$folder"/checkpoints "$folder"/runs "$folder"/server.db* "$folder"/server.log
start "${ADAPTERS:-10}"
ready
if [ $# -gt 0 ]; then
	begin "$@"
	ended
	exit
fi
fail() {
	echo "run.sh: $*" >&2
	exit 1
}

# loaded is the number of models that the server has.
loaded() {
	"$folder/env/bin/python" -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("select count(*) from models where status != \"unloaded\"").fetchone()[0])' "$folder/server.db"
}

begin go test ./learner/tinker -run '^TestRealServer$' -count 1 -v
ended
[ "$(loaded)" = 0 ] || fail "$(loaded) models are left after the test"
stop
start 2
ready

settings=(--env keytodoor --learner tinker --tinker-url "$INFINIRL_TINKER_URL" --tinker-profile skyrl-jax --model "$model"
	--set chat.template=words --set learner.tinker.rank=8 --set advantage.estimator=reinforce++ --set rollout.group_size=1 --set rollout.concurrency=128
	--set train.max_grad_norm=0 --set ppo.dual_clip=0 --set train.old_log_probs=learner --set train.final_lr=1)
keytodoor=$folder/runs/keytodoor
begin "$folder/infinirl" train "${settings[@]}" --run "$keytodoor" --set train.steps=10 --set rollout.groups=256 \
	--set train.minibatches=8 --set eval.tasks=128
ended
[ "$(loaded)" = 0 ] || fail "$(loaded) models are left after the run"
"$folder/env/bin/python" - "$keytodoor" <<'EOF'
import json, sys
summary = json.load(open(sys.argv[1] + "/summary.json"))
steps = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
gap = max(step["log_prob_drift_max"] for step in steps)
mean = sum(step["log_prob_drift_mean"] for step in steps) / len(steps)
print(f"gap between sampler and learner: mean {mean:.1e}, at most {gap:.1e} nats")
first, last = (sum(step["success"] for step in part) / 3 for part in (steps[:3], steps[-3:]))
print(f"success of rollouts: first three steps {first:.3f}, last three {last:.3f}")
assert len(steps) == 10 and 0 < gap < 1e-3, (len(steps), gap)
assert last > first + 0.1 and summary["eval_success"] > summary["warm_start_success"], summary
EOF

# lines waits until a run has taken a number of steps.
faults=$folder/runs/faults
lines() {
	until [ -e "$faults/metrics.jsonl" ] && [ "$(wc -l <"$faults/metrics.jsonl")" -ge "$1" ]; do
		kill -0 "$running" 2>/dev/null || fail "the run ended before step $1"
		sleep 0.2
	done
}

begin "$folder/infinirl" train "${settings[@]}" --run "$faults" --set train.steps=4 --set rollout.groups=16 --set eval.tasks=4 --set train.minibatches=2
lines 1
kill -INT "$running" # while it waits for something, wherever it is
! ended || fail "an interrupted run ends with status 0"
[ "$(loaded)" = 0 ] || fail "$(loaded) models are left after the interrupt"

begin "$folder/infinirl" train --run "$faults" --resume
lines 2
kill -KILL -- "-$server"
wait "$server" 2>/dev/null || true
start 2
! ended || fail "a run whose server was killed ends with status 0"
ready

begin "$folder/infinirl" train --run "$faults" --resume
lines 3
kill -KILL "$running"
! ended
until [ "$(loaded)" = 0 ]; do sleep 1; done # the server hears no more of it, and unloads its models

begin "$folder/infinirl" train --run "$faults" --resume
ended
[ "$(grep -o '^{"step":[0-9]*' "$faults/metrics.jsonl" | tr '\n' ' ')" = '{"step":1 {"step":2 {"step":3 {"step":4 ' ] || fail "steps are missing or twice in $faults/metrics.jsonl"
