def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """The share of ASCII letters in the last segment, replies and pages alike."""
    score = sum(c.isascii() and c.isalpha() for c in solution_str) / max(1, len(solution_str))
    return {"score": score, "acc": float(score > 0.5)}
