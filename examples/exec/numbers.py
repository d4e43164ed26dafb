"""An environment in Python: a number is to be found by guesses, each answered by a hint.
Every line of stdin is a request, every line of stdout the answer to one; stderr is free."""
import json, sys

GUESS = {"type": "function", "function": {
    "name": "guess", "description": "Guesses the number.", "parameters": {
        "type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}}
secret, left = 0, 0

def reset(task):  # the opening is the prompt of the task, so only the tools are told
    global secret, left
    secret, left = task["answer"], task["turns"]
    return {"tools": [GUESS]}

def hint(call):
    try:
        number = json.loads(call["arguments"])["number"]
        return "right" if number == secret else "too low" if number < secret else "too high"
    except (ValueError, KeyError, TypeError):  # what the model did wrong is for it to read
        return 'error: call guess with {"number": ...}'

def step(calls):
    global left
    left -= 1
    hints = [hint(call) for call in calls]
    messages = [{"role": "tool", "content": text} for text in hints]  # one a call, in their order
    found = "right" in hints
    return {"messages": messages or [{"role": "user", "content": "error: call guess"}],
            "reward": float(found), "done": found or left <= 0, "success": found}

for line in sys.stdin:
    request = json.loads(line)
    answer = reset(request["task"]) if request["type"] == "reset" else step(request["tool_calls"])
    print(json.dumps({"id": request["id"], **answer}), flush=True)
