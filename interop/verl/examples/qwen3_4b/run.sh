#!/bin/sh
# Qwen3-4B on one machine with 8 GPUs, vLLM and FSDP2: tool episodes of any length in a
# window of 16,384 tokens, PPO with a critic and credit that crosses the cuts.
#
# NOT RUN: written from verl 0.9.1's settings. Its configuration was checked (the line with
# `check` below), nothing was trained with it.
#
#   TRAIN=train.parquet VAL=val.parquet TOOLS=tools.py REWARD=reward.py run.sh [OVERRIDE...]
#
# TRAIN, VAL: as verl's tool agents read them, with a column agent_name of infinirl_tool_agent or none
# TOOLS:      functions with @function_tool, as in ../tiny_cpu/tools.py; or leave it empty
#             and name a tool_config_path
# REWARD:     compute_score, as in ../tiny_cpu/reward.py; "acc" in what it returns becomes
#             the metric infinirl/success/mean
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
model=${MODEL:-Qwen/Qwen3-4B}
set -- \
	algorithm.adv_estimator=infinirl_gae algorithm.gamma=1.0 algorithm.lam=0.95 +algorithm.infinirl.lambda_alpha=0.05 \
	trainer.v1.trainer_mode=infinirl_sync \
	data.train_files="$TRAIN" data.val_files="$VAL" data.train_batch_size=128 \
	data.max_prompt_length=4096 data.max_response_length=12288 data.filter_overlong_prompts=True \
	actor_rollout_ref.model.path="$model" actor_rollout_ref.model.use_remove_padding=True \
	actor_rollout_ref.model.enable_gradient_checkpointing=True \
	actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.optim.lr=1e-6 actor_rollout_ref.actor.ppo_mini_batch_size=32 \
	actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768 \
	actor_rollout_ref.actor.loss_agg_mode=token-mean actor_rollout_ref.actor.clip_ratio_low=0.2 actor_rollout_ref.actor.clip_ratio_high=0.28 \
	actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.n=4 \
	actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True \
	actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=65536 actor_rollout_ref.rollout.calculate_log_probs=True \
	actor_rollout_ref.rollout.multi_turn.enable=True actor_rollout_ref.rollout.multi_turn.format=hermes \
	actor_rollout_ref.rollout.multi_turn.max_assistant_turns=60 actor_rollout_ref.rollout.multi_turn.max_tool_response_length=20000 \
	actor_rollout_ref.rollout.multi_turn.function_tool_path="${TOOLS:-null}" \
	actor_rollout_ref.rollout.agent.default_agent_loop=infinirl_tool_agent \
	actor_rollout_ref.rollout.agent.agent_loop_config_path="$here/agent.yaml" \
	critic.enable=True critic.strategy=fsdp2 critic.model.path="$model" critic.model.use_remove_padding=True \
	critic.model.enable_gradient_checkpointing=True critic.optim.lr=1e-5 critic.ppo_mini_batch_size=32 \
	critic.use_dynamic_bsz=True critic.ppo_max_token_len_per_gpu=32768 \
	reward.custom_reward_function.path="$REWARD" reward.custom_reward_function.name=compute_score \
	trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.critic_warmup=5 'trainer.logger=["console","wandb"]' \
	trainer.project_name=infinirl trainer.experiment_name=qwen3-4b trainer.total_epochs=3 trainer.save_freq=20 trainer.test_freq=10 "$@"
"$python" -m infinirl_verl check "$@"
exec "$python" -m verl.trainer.main_ppo "$@"
