"""A reward in Python: grades the last message of a conversation by the answer of its task."""
import json, sys

for line in sys.stdin:
    request = json.loads(line)
    said = request["messages"][-1]["content"] or ""
    right = str(request["task"]["answer"]).lower() in said.lower()
    print(json.dumps({"id": request["id"], "reward": float(right), "success": right}), flush=True)
