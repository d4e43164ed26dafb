"""Batches of InfiniRL in Python: the safetensors form with the stock package.

A batch is a dict of numpy arrays and lists, as docs/formats.md describes it:
rows R, tokens N.

    trajectory_id, group_id, status, error   lists of R strings
    cu_seqlens [R+1], inv_iter [R], prompt_len [R], score [R] (NaN: none),
    success [R] (0, 1; 2: not told), next_offsets [R+1] and next_ids, ...
    token_ids [N], loss_mask [N], values [N], advantages [N], ...
"""

import json

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

STRINGS = {  # name here: (index tensor, list in the metadata, its dtype)
    "trajectory_id": ("trajectory", "trajectory_ids", np.int32),
    "group_id": ("group", "group_ids", np.int32),
    "status": ("status", "statuses", np.uint8),
    "error": ("error", "errors", np.int32),
}
FLOATS = ("rollout_log_probs", "old_log_probs", "ref_log_probs", "values", "rewards", "advantages", "returns")


def read(path):
    """Reads a plain or packed file; packed columns are unpacked."""
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
        batch = {name: file.get_tensor(name) for name in file.keys()}
    if metadata.get("format") != "infinirl.batch":
        raise ValueError(f"{path}: not a batch")
    for name, (index, table, _) in STRINGS.items():
        if index in batch:
            texts = json.loads(metadata[table])
            batch[name] = [texts[k] for k in batch.pop(index)]
    if metadata["layout"] == "packed":
        unpack(batch)
    return batch


def unpack(batch):
    """Puts the spans of trainable tokens back into full columns."""
    mask = np.zeros(len(batch["token_ids"]), bool)
    for start, end in batch.pop("spans"):
        mask[start:end] = True
    batch["loss_mask"] = mask
    for name in FLOATS:
        if name in batch:
            full = np.zeros(len(mask), np.float32)
            full[mask] = batch[name]
            batch[name] = full
    if "masked_rewards" in batch:
        batch["rewards"][batch.pop("masked_reward_index")] = batch.pop("masked_rewards")


def write(path, batch):
    """Writes a batch as a plain file. Columns that are not there are left out."""
    metadata = {"format": "infinirl.batch", "version": "1", "layout": "plain"}
    tensors = {}
    for name, column in batch.items():
        if name in STRINGS:
            index, table, dtype = STRINGS[name]
            texts = list(dict.fromkeys(column))
            number = {text: k for k, text in enumerate(texts)}
            tensors[index] = np.array([number[text] for text in column], dtype)
            metadata[table] = json.dumps(texts)
        elif name in FLOATS:
            tensors[name] = np.asarray(column, np.float32)
        elif name in ("token_ids", "inv_iter", "prompt_len", "next_ids"):
            tensors[name] = np.asarray(column, np.int32)
        elif name in ("cu_seqlens", "policy_version", "oldest_policy_version", "next_offsets"):
            tensors[name] = np.asarray(column, np.int64)
        elif name in ("score", "bootstrap_value"):
            tensors[name] = np.asarray(column, np.float64)
        elif name == "success":
            tensors[name] = np.asarray(column, np.uint8)
        elif name in ("loss_mask", "rewards_given"):
            tensors[name] = np.asarray(column, bool)
        else:
            raise KeyError(name)
    save_file(tensors, path, metadata)
