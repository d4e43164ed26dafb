"""Renders conversations with Python's jinja2 as transformers does: what compare checks the Go rendering against.

usage: reference.py TEMPLATE.jinja... > CASES.jsonl
"""

import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} encloses what a model wrote; it renders as what it encloses."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return env


def call(name, identifier="c00000001", **arguments):
    return {"type": "function", "id": identifier, "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {"type": "function", "function": {"name": "find", "description": "Finds <things> & \"more\".", "parameters": {
        "type": "object", "properties": {"query": {"type": "string", "description": "what"}, "count": {"type": "integer"}}, "required": ["query"]}}},
    {"type": "function", "function": {"name": "open", "description": "Opens.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "as": {"type": "string", "enum": ["text", "html"]}}, "required": ["path"]}}},
]

SYSTEM = {"role": "system", "content": "Be brief.\n"}
USER = {"role": "user", "content": "Find x, then café ☃."}
LOOK = {"role": "assistant", "content": "Looking.", "tool_calls": [call("find", query="x <b> & \"y\"", count=3)]}
FOUND = {"role": "tool", "content": "x is 1\n", "tool_call_id": "c00000001", "name": "find"}
BOTH = {"role": "assistant", "content": "", "tool_calls": [call("find", query="x"), call("open", "c00000002", path="a/b", **{"as": "text"})]}
OPENED = {"role": "tool", "content": "text", "tool_call_id": "c00000002", "name": "open"}
THINK = {"role": "assistant", "content": "It is 1.", "reasoning_content": "Easy.\nVery."}
DONE = {"role": "assistant", "content": "It is 1."}
NULL = {"role": "assistant", "content": None, "tool_calls": [call("find", query="x")]}
TAGGED = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt is 1."}
NESTED = {"role": "assistant", "content": "", "tool_calls": [call("find", query="x", z=[1, 2.5, {"b": None, "a": True}], a={})]}

CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "answered": [USER, DONE],
    "dialogue": [SYSTEM, USER, DONE, {"role": "user", "content": "And y?"}],
    "call": [SYSTEM, USER, LOOK],
    "result": [SYSTEM, USER, LOOK, FOUND],
    "parallel": [USER, BOTH, FOUND, OPENED],
    "rounds": [USER, LOOK, FOUND, NESTED, FOUND, DONE],
    "thinking": [USER, THINK],
    "thought before": [USER, THINK, {"role": "user", "content": "Sure?"}],
    "thinking call": [USER, dict(LOOK, reasoning_content="Hm."), FOUND],
    "tagged": [USER, TAGGED, {"role": "user", "content": "Sure?"}],
    "null content": [USER, NULL, FOUND],
    "two systems": [SYSTEM, {"role": "system", "content": "Really."}, USER],
    "only system": [SYSTEM],
    "bare result": [USER, FOUND, DONE],
    "empty": [{"role": "user", "content": ""}],
}


def main():
    env = environment()
    for path in sys.argv[1:]:
        template = env.from_string(open(path, encoding="utf-8").read())
        for name, messages in CONVERSATIONS.items():
            for tools in (None, TOOLS):
                for generate in (False, True):
                    variables = {"bos_token": "<s>", "eos_token": "</s>"}
                    case = {"template": path, "name": name, "messages": messages, "tools": tools, "add_generation_prompt": generate, "variables": variables}
                    try:
                        case["text"] = template.render(messages=messages, tools=tools, add_generation_prompt=generate, **variables)
                    except Exception as error:  # of any kind: the Go rendering has to fail too
                        case["error"] = f"{type(error).__name__}: {error}"
                    print(json.dumps(case))


main()
