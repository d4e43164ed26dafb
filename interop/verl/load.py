"""Reads a batch of InfiniRL into a verl.DataProto: one row a segment."""

import json

import torch
from safetensors import safe_open
from verl import DataProto

NAMES = {"values": "values", "rewards": "token_level_rewards", "rollout_log_probs": "rollout_log_probs", "old_log_probs": "old_log_probs",
         "ref_log_probs": "ref_log_prob", "advantages": "advantages", "returns": "returns"}  # here: in verl


def load(path, pad_token_id=0):
    """Prompts are padded on the left and responses on the right, as verl wants them."""
    with safe_open(path, "pt") as file:
        metadata, columns = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    if metadata["layout"] != "plain":
        raise ValueError(f"{path}: convert it with: infinirl batch convert {path} --format safetensors")
    starts, ends = columns["cu_seqlens"][:-1], columns["cu_seqlens"][1:]
    responses = starts + columns["prompt_len"] if "prompt_len" in columns else starts
    pad = lambda x, a, b, fill, side="right": torch.nn.utils.rnn.pad_sequence(
        [x[i:j] for i, j in zip(a.tolist(), b.tolist())], batch_first=True, padding_value=fill, padding_side=side)

    ids, ones = columns["token_ids"].long(), torch.ones_like(columns["token_ids"], dtype=torch.long)
    tensors = {"prompts": pad(ids, starts, responses, pad_token_id, "left"), "responses": pad(ids, responses, ends, pad_token_id)}
    tensors["input_ids"] = torch.cat([tensors["prompts"], tensors["responses"]], 1)
    tensors["attention_mask"] = torch.cat([pad(ones, starts, responses, 0, "left"), pad(ones, responses, ends, 0)], 1)
    tensors["position_ids"] = (tensors["attention_mask"].cumsum(1) - 1).clamp(min=0)
    tensors["response_mask"] = pad(columns["loss_mask"].long(), responses, ends, 0)
    for name, theirs in NAMES.items():
        if name in columns:
            tensors[theirs] = pad(columns[name], responses, ends, 0.0)
    non_tensors = {"trajectory_id": [json.loads(metadata["trajectory_ids"])[k] for k in columns["trajectory"].tolist()],
                   "inv_iter": columns["inv_iter"].tolist()}
    if "group" in columns:
        non_tensors["uid"] = [json.loads(metadata["group_ids"])[k] for k in columns["group"].tolist()]
    return DataProto.from_dict(tensors, non_tensors)
