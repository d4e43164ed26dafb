"""The rows of a step as a batch of InfiniRL (docs/formats.md), a segment a line:
`infinirl advantage` computes its credit again, `infinirl replay` its prompts."""

import json

from .rows import trajectories

SAME = {"response_mask": "loss_mask", "responses": "response_ids", "prompts": "prompt_ids"}
FLOATS = {"rollout_log_probs": "rollout_log_probs", "old_log_probs": "old_log_probs", "ref_log_prob": "ref_log_probs", "values": "values",
          "advantages": "advantages", "returns": "returns"}


def save(path, rows, columns, extra):
    """columns: verl's name -> a list a row. Rows that fill the batch are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        for t in trajectories(rows):
            for k, r in enumerate(t.rows):
                own, last = extra[r].get("infinirl", {}), k == len(t.rows) - 1
                line = {"trajectory_id": t.name, "group_id": str(t.group), "inv_iter": len(t.rows) - 1 - k, "status": own.get("status", "finished")}
                if "token_level_rewards" not in columns:  # else there are penalties beside the outcome, and their sum is what is compared
                    line["score"] = sum(columns["rm_scores"][t.rows[-1]])
                line |= {here: list(map(int, columns[theirs][r])) for theirs, here in SAME.items()}
                line["rewards"] = list(columns.get("token_level_rewards", columns["rm_scores"])[r])
                if not last:  # the outcome counts once
                    line["rewards"] = [a - b for a, b in zip(line["rewards"], columns["rm_scores"][r])]
                elif rows.bootstrap is not None and rows.bootstrap[r]:
                    line["bootstrap_value"] = float(rows.bootstrap[r])
                line |= {here: columns[theirs][r] for theirs, here in FLOATS.items() if theirs in columns}
                if own.get("condense"):
                    line["condense"] = own["condense"]
                file.write(json.dumps(line) + "\n")
