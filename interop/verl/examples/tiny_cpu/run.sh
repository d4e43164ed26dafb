#!/bin/sh
# verl's V1 PPO trainer on one or two CPU cores: a Qwen2 of 108,000 parameters, made on
# the spot, whose babble counts as tool calls. Three steps, two to three minutes, 6 GiB.
#
#   run.sh FOLDER [OVERRIDE...]   FOLDER gets model, tasks and rows
#
# PYTHON names a Python with infinirl-verl, verl and torch (default: python3). What verl
# lacks on CPUs is in ../../tests/verl_on_cpu; on GPUs nothing of it is wanted.
set -eu
work=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
mkdir -p "$work"
export PYTHONPATH="$here/../../tests" VERL_USE_EXTERNAL_MODULES=verl_on_cpu PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0 WANDB_MODE=offline HYDRA_FULL_ERROR=1 HF_HUB_OFFLINE=1
export VERL_FILE_LOGGER_PATH="$work/metrics.jsonl"
[ -e "$work/tiny/config.json" ] || "$python" "$here/../../tests/tiny.py" "$work/tiny"
"$python" "$here/data.py" "$work"
set -- \
	algorithm.adv_estimator=infinirl_gae algorithm.gamma=1.0 algorithm.lam=0.95 +algorithm.infinirl.save_rows="$work/rows" \
	trainer.v1.trainer_mode=infinirl_sync \
	data.train_files="$work/train.parquet" data.val_files="$work/val.parquet" data.train_batch_size=4 \
	data.max_prompt_length=256 data.max_response_length=256 data.dataloader_num_workers=0 \
	actor_rollout_ref.model.path="$work/tiny" actor_rollout_ref.model.use_remove_padding=False \
	actor_rollout_ref.model.enable_gradient_checkpointing=False +actor_rollout_ref.model.override_config.attn_implementation=eager \
	actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.use_torch_compile=False \
	actor_rollout_ref.actor.fsdp_config.use_torch_compile=False actor_rollout_ref.actor.fsdp_config.model_dtype=fp32 \
	+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32 \
	actor_rollout_ref.actor.ppo_mini_batch_size=2 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.actor.optim.lr=1e-3 \
	actor_rollout_ref.rollout.name=verl_on_cpu actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.n=2 \
	actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.calculate_log_probs=True \
	actor_rollout_ref.rollout.dtype=float32 \
	actor_rollout_ref.rollout.multi_turn.enable=True actor_rollout_ref.rollout.multi_turn.format=babble \
	actor_rollout_ref.rollout.multi_turn.max_assistant_turns=6 actor_rollout_ref.rollout.multi_turn.function_tool_path="$here/tools.py" \
	actor_rollout_ref.rollout.agent.num_workers=1 actor_rollout_ref.rollout.agent.default_agent_loop=infinirl_tool_agent \
	actor_rollout_ref.rollout.agent.agent_loop_config_path="$here/agent.yaml" \
	critic.enable=True critic.model.path="$work/tiny" critic.model.use_remove_padding=False critic.model.enable_gradient_checkpointing=False \
	+critic.model.override_config.attn_implementation=eager critic.strategy=fsdp2 critic.fsdp.use_torch_compile=False \
	critic.ppo_micro_batch_size_per_gpu=4 critic.optim.lr=1e-3 \
	reward.num_workers=1 reward.custom_reward_function.path="$here/reward.py" reward.custom_reward_function.name=compute_score \
	trainer.device=cpu trainer.n_gpus_per_node=1 trainer.nnodes=1 'trainer.logger=["console","file"]' trainer.total_training_steps=3 \
	trainer.val_before_train=False trainer.save_freq=-1 trainer.test_freq=-1 trainer.resume_mode=disable \
	transfer_queue.backend.SimpleStorage.num_data_storage_units=1 \
	ray_kwargs.ray_init.num_cpus=8 +ray_kwargs.ray_init.num_gpus=2 +ray_kwargs.ray_init.include_dashboard=False "$@"
"$python" -m infinirl_verl check "$@"
exec "$python" -m verl.trainer.main_ppo "$@"
