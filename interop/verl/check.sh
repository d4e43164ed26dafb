#!/bin/sh
# Checks the package in three layers. The output of all is in README.md.
#
#   interop/verl/check.sh LAYERS [DIR]   DIR: virtual environment to make or use again
#
#   a  the estimators against `infinirl advantage`, the condenser against `infinirl
#      condense`, settings and errors: numpy alone, seconds, in every CI run
#   b  verl's own compute_advantage, losses, tool agent and parser with them: 7.5 GB to
#      install, then two minutes
#   c  verl's V1 trainer on Ray, TransferQueue and one or two FSDP2 ranks on CPUs: three
#      steps each, six runs of two to five minutes, 6 GiB of memory
set -eu
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/../.."
case ${1:-} in
*[!abc]* | "") echo "usage: interop/verl/check.sh LAYERS [DIR], LAYERS of a, b and c" >&2 && exit 2 ;;
esac
layers=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${2:-$work/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
python=$(cd "$venv/bin" && pwd)/python
go build -o "$work/infinirl" ./cmd/infinirl
export INFINIRL="$work/infinirl" PYTHONPATH="$PWD/interop/verl:$PWD/interop/verl/tests"

# install PACKAGE...: what is missing
install() { "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }

layer_a() {
	"$python" -c 'import numpy' 2>/dev/null || install 'numpy>=1.26,<3'
	(cd interop/verl/tests && "$python" -m unittest -q test_*.py)
}

install_verl() {
	"$python" -c 'import verl, safetensors, transfer_queue' 2>/dev/null || # the rest is what verl needs of V1 and names nowhere
		install 'verl==0.9.1' 'torch==2.8.0' safetensors 'TransferQueue>=0.1.10' cachetools pyzmq msgspec fastapi uvicorn
	cp -R interop/verl "$work/package" # that pip leaves nothing in the source
	install --no-deps --force-reinstall "$work/package"
	export PYTHONPATH="$PWD/interop/verl/tests" # the installed one from here on
}

layer_b() {
	"$python" -m infinirl_verl check
	"$python" interop/verl/tests/plugin_errors.py
	"$python" interop/verl/tests/verl_trainer.py
	"$python" interop/verl/tests/verl_advantage.py
	"$python" interop/verl/tests/tiny.py "$work/tiny"
	"$python" interop/verl/tests/verl_loop.py "$work/tiny"
	PYTHONPATH="$PYTHONPATH:$PWD/interop/verl" "$python" interop/verl/tests/verl_gae.py "$INFINIRL"
}

# trained NAME FLAGS OVERRIDE...: three steps, and what was stored in them, against
# `infinirl advantage FLAGS`
trained() {
	name=$1
	flags=$2
	shift 2
	mkdir -p "$work/$name"
	if ! PYTHON="$python" VERL_ON_CPU_STEPS="$work/$name" interop/verl/examples/tiny_cpu/run.sh "$work/$name" "$@" >"$work/$name.log" 2>&1; then
		tail -n 40 "$work/$name.log" >&2
		exit 1
	fi
	echo "$name:"
	"$python" interop/verl/tests/verify.py "$work/$name" $flags
}

layer_c() {
	for mode in sync colocate_async; do
		for ranks in 1 2; do
			trained "$mode-$ranks" '--whiten --lambda 0.95' trainer.v1.trainer_mode=infinirl_$mode trainer.n_gpus_per_node=$ranks
		done
	done
	trained no-critic '--estimator grpo' algorithm.adv_estimator=infinirl_grpo critic.enable=False
	trained kl-in-reward '--estimator turn-gae --whiten --gamma 0.99 --lambda 0.9 --critic-lambda 0.95' algorithm.adv_estimator=infinirl_turn_gae \
		algorithm.gamma=0.99 algorithm.lam=0.9 +algorithm.infinirl.critic_lambda=0.95 algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.1 \
		actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 actor_rollout_ref.ref.strategy=fsdp2 \
		actor_rollout_ref.ref.fsdp_config.use_torch_compile=False actor_rollout_ref.ref.fsdp_config.model_dtype=fp32
}

case $layers in *a*) layer_a ;; esac
case $layers in *[bc]*) install_verl ;; esac
case $layers in *b*) layer_b 2>"$work/err" || { cat "$work/err" >&2; exit 1; } ;; esac
case $layers in *c*) layer_c ;; esac
