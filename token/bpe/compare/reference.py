"""Writes what Hugging Face's tokenizers say: the cases that compare checks this project's tokenizer against.

usage: reference.py cases TOKENIZER_JSON OUT.jsonl
       reference.py variants FIXTURE_JSON OUT_FOLDER
       reference.py characters OUT_FOLDER
       reference.py golden OUT_FOLDER
       reference.py template TOKENIZER_JSON OUT_JSON
       reference.py corpus OUT_FOLDER
       reference.py speed NAME TOKENIZER_JSON CORPUS...
"""

import ast
import base64
import functools
import importlib.util
import json
import os
import pathlib
import pydoc_data.topics
import random
import sys
import sysconfig
import time
import unicodedata

import tokenizers

EACH = 2000  # strings of each category

ISOLATED = {"type": "Split", "behavior": "Isolated", "invert": False}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = dict(BYTE_LEVEL, use_regex=True)
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""".replace(r"\r\n", "\r\n")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPACES = [c for c in map(chr, range(0x3001)) if c.isspace() and not 0x1C <= ord(c) <= 0x1F] + ["\u200b", "\u180e", "\ufeff"]
SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x3040, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x10400, 0x1044F), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF),
]
MARKS = [c for c in map(chr, range(0x20000)) if unicodedata.category(c).startswith("M")]
DIGITS = [c for c in map(chr, range(0x20000)) if unicodedata.category(c).startswith("N")]
EMOJI = (
    [chr(c) for c in range(0x1F300, 0x1F650)] + [chr(c) for c in range(0x1F900, 0x1FA00)] + [chr(c) for c in range(0x2600, 0x27C0)]
    + ["\u200d", "\ufe0f", "\u20e3"] + [chr(c) for c in range(0x1F3FB, 0x1F400)] + [chr(c) for c in range(0x1F1E6, 0x1F200)]
)
COMPOSED = [c for c in map(chr, range(0x30000)) if unicodedata.normalize("NFD", c) != c]
CONTROLS = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) in ("Cc", "Cf")] + list("\ue000\uf8ff\ufdd0\ufffe\uffff\U000f0000\U0010ffff")
ANY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


@functools.cache
def sources():
    """Python's own library: code."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return [p.read_text("utf-8", "replace") for p in sorted(folder.glob("*.py")) + sorted(folder.glob("*/*.py")) if "packages" not in str(p) and "test" not in str(p)]


@functools.cache
def prose():
    """Python's own manual: English."""
    strings = [n.value for source in sources() for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return list(pydoc_data.topics.topics.values()) + [s for s in strings if len(s) > 300 and " the " in s]


@functools.cache
def languages():
    """The translations of Django: text in a hundred languages, one text each."""
    folder = pathlib.Path(importlib.util.find_spec("django").origin).parent
    texts = []
    for path in sorted(folder.glob("**/*.po")):
        translated = path.read_text("utf-8").split('msgstr "')[1:]
        texts.append(" ".join(ast.literal_eval('"' + t.split("\n")[0]) for t in translated))
    return [t for t in texts if len(t) > 1000]


def strings(added, part=1):
    """Yields (category, bytes): all of them, or a part."""
    r = random.Random(20250)
    code, english, translations = "\n".join(sources()), "\n".join(prose()), languages()

    def cut(text):
        at, n = r.randrange(len(text)), r.choice([1, 5, 20, 100, 400])
        return text[at : at + r.randint(1, n)]

    def word():
        low, high = r.choice(SCRIPTS)
        return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 12)))

    def mixed():
        return "".join(word() + r.choice(["", " ", ", ", "-", "'s ", "\n", "12"]) for _ in range(r.randint(1, 12)))

    def whitespace():
        return "".join(
            r.choice([" ", "\n", "\t", "\r\n", r.choice(SPACES)]) * r.choice([1, 1, 2, 3, 8, 40]) + r.choice(["", "", "a", "if", ".", "7", "é"])
            for _ in range(r.randint(1, 12))
        )

    def emoji():
        return "".join(r.choice([r.choice(EMOJI), r.choice(EMOJI), "ok", " ", "!"]) for _ in range(r.randint(1, 20)))

    def combining():
        kind = r.randrange(4)
        if kind == 0:
            return "".join(r.choice("aeoAO가각\u09c7いσ ") + "".join(r.choice(MARKS) for _ in range(r.choice([0, 1, 2, 3, 45]))) for _ in range(8))
        if kind == 1:
            return unicodedata.normalize("NFD", "".join(r.choice(COMPOSED) for _ in range(r.randint(1, 20))))
        if kind == 2:
            return "".join(r.choice(COMPOSED) + r.choice(MARKS + ["x"]) for _ in range(r.randint(1, 20)))
        return unicodedata.normalize(r.choice(["NFD", "NFKD"]), mixed())

    def invalid():
        kind = r.randrange(3)
        if kind == 0:
            return bytes(r.randrange(256) for _ in range(r.randint(1, 60)))
        if kind == 1:
            data = bytearray(mixed().encode())
            for _ in range(r.randint(1, 5)):
                data[r.randrange(len(data))] = r.choice([0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF8, 0xFF])
            return bytes(data)
        data = mixed().encode()
        return data[r.randrange(len(data)) :][: r.randint(1, 9)] + cut(english).encode() + data[: r.randint(1, 9)]

    def special():
        parts = []
        for _ in range(r.randint(1, 8)):
            token = r.choice(added)
            parts.append(r.choice([token, token, token[: r.randint(1, len(token))], token[r.randrange(len(token)) :], cut(english), " ", "\n", "  x ", "<|", "é", "e\u0301", "_"]))
        return "".join(parts)

    def digits():
        return "".join(r.choice(["".join(r.choice("0123456789") for _ in range(r.choice([1, 3, 10, 200]))), r.choice(DIGITS) * r.randint(1, 5), ".", " ", "e", ",", "x"]) for _ in range(r.randint(1, 10)))

    def contraction():
        return "".join(r.choice(["I", "we ", "'", "’", "'", "s", "S", "ſ", "t", "T", "re", "rE", "vE", "m", "ll", "lL", "LL", "d", "D", "K", " ", "\u0130"]) for _ in range(r.randint(2, 12)))

    def ascii():
        return "".join(chr(r.randrange(128)) for _ in range(r.randint(1, 60)))

    def unicode():
        return "".join(chr(r.choice(ANY)) if r.random() < 0.8 else r.choice(" a'1\n") for _ in range(r.randint(1, 30)))

    def control():
        return "".join(r.choice([r.choice(CONTROLS), r.choice(CONTROLS), chr(r.randrange(32)), "a", " ", "1", "é"]) for _ in range(r.randint(1, 20)))

    def long():
        alphabet = r.choice(["a", "ab", "abcdefghijklmnopqrstuvwxyz", "ABCdefgh", "中文字符的一是在不了", "=-_", " ", " \n", "αβγδабвгд", "éèàü"])
        return "".join(r.choice(alphabet) for _ in range(r.choice([50, 100, 150, 500]))) + r.choice(["", " end", "\n"])

    yield "empty", b""
    for category, make in {
        "code": lambda: cut(code), "English": lambda: cut(english), "emoji": emoji, "white space": whitespace,
        "mixed scripts": mixed, "combining marks": combining, "invalid UTF-8": invalid, "special tokens": special,
        "digits": digits, "contractions": contraction, "ASCII": ascii, "any characters": unicode, "long pieces": long,
        "languages": lambda: cut(r.choice(translations)), "control characters": control,
    }.items():
        for _ in range(round(EACH * part)):
            text = make()
            yield category, text if isinstance(text, bytes) else text.encode()
    # Every character there is, in three surroundings up to the last plane with letters.
    for i in range(0, len(ANY), 128):
        for between in (" ", "a", "1'") if ANY[i] < 0x34000 else (" ",):
            if part < 1 and r.random() > part:
                continue
            yield "every character", between.join(map(chr, ANY[i : i + 128])).encode()


def encode64(data):
    return base64.b64encode(data).decode()


def attempt(tokenizer, text):
    """Returns the ids, or None where it panics: where what a token strips is itself a token, or normalised to longer characters."""
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids if tokenizer else None
    except BaseException as error:
        if "bad split" not in str(error) and "not a char boundary" not in str(error):
            raise


def cases(path, out, part=1):
    described = json.load(open(path, encoding="utf-8"))
    whole = tokenizers.Tokenizer.from_str(json.dumps(described))
    # Plain text: without the control tokens, which are special or matched before normalisation.
    controls = [t for t in described["added_tokens"] if t["special"] or not t["normalized"]]
    described["added_tokens"] = [t for t in described["added_tokens"] if t not in controls]
    try:
        plain = tokenizers.Tokenizer.from_str(json.dumps(described))
        if any(plain.token_to_id(t["content"]) != t["id"] for t in described["added_tokens"]):
            plain = None  # ids moved up: nothing to compare with
    except BaseException:
        plain = None
    added = [t["content"] for t in json.load(open(path, encoding="utf-8"))["added_tokens"]]
    # decode does not find special tokens that normalisation spells anew.
    special = {t["id"] for t in json.load(open(path, encoding="utf-8"))["added_tokens"] if t["special"]}
    hidden = {t["id"] for t in json.load(open(path, encoding="utf-8"))["added_tokens"] if t["special"] and whole.id_to_token(t["id"]) != t["content"]}

    def skipped(ids):
        return whole.decode([i for i in ids if i not in special] if hidden else ids, skip_special_tokens=True)

    r = random.Random(7)
    known = sorted(whole.get_vocab().values())
    with open(out, "w") as file:
        for category, data in strings(added, part):
            text = data.decode("utf-8", "replace")
            rendered = attempt(whole, text)
            if rendered is None:
                continue
            case = {
                "category": category, "text": encode64(data), "rendered": rendered,
                "plain": attempt(plain, text),
                "wrapped": whole.encode(text, add_special_tokens=True).ids,
                "decoded": whole.decode(rendered, skip_special_tokens=False),
                "skipped": skipped(rendered),
            }
            print(json.dumps(case), file=file)
        for _ in range(EACH if part == 1 else 200):
            ids = [r.choice(known) if r.random() < 0.5 else r.randrange(256) for _ in range(r.randint(1, 40))]
            ids = [i for i in ids if whole.id_to_token(i) is not None]
            case = {"category": "ids at random", "ids": ids, "decoded": whole.decode(ids, skip_special_tokens=False), "skipped": skipped(ids)}
            print(json.dumps(case), file=file)


def variants(fixture, folder):
    """Writes tokenizer.json files with every supported setting, changed at random, and their cases."""
    base = json.load(open(fixture, encoding="utf-8"))
    r = random.Random(3)
    patterns = [
        {"Regex": base["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]},
        {"Regex": base["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].replace(r"\p{N}|", r"\p{N}{1,3}|")},
        {"Regex": r"\p{N}{1,3}"}, {"Regex": r"[\p{L}\p{M}]+|\p{Lu}+"}, {"Regex": r"\s+(?!\S)|\r?\n"}, {"Regex": r"[^\p{L}\s]+"},
        {"Regex": r"[一-龥ぁ-ゟ]+|\p{Han}"}, {"String": " "}, {"String": "a"}, {"Regex": r"(?i:'s|k)"},
    ]
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    for n in range(60):
        v = json.loads(json.dumps(base))
        steps = [pretokenizer(r, patterns, behaviors) for _ in range(r.randrange(3))]
        level = dict(BYTE_LEVEL, add_prefix_space=r.random() < 0.3, use_regex=r.random() < 0.4)
        v["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps + [level]} if steps or r.random() < 0.5 else level
        v["normalizer"] = r.choice([None, {"type": "NFC"}, {"type": "Sequence", "normalizers": [{"type": "NFC"}]}])
        for token in v["added_tokens"]:
            for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
                if r.random() < 0.3:
                    token[flag] = not token[flag]
        model = v["model"]
        model["ignore_merges"] = r.random() < 0.3
        if r.random() < 0.3:
            model["merges"] = [" ".join(m) if isinstance(m, list) else m.split(" ") for m in model["merges"]]
        if r.random() < 0.4:  # bytes without a token
            used = {part for m in model["merges"] for part in (m.split(" ") if isinstance(m, str) else m)}
            gone = r.sample(sorted(t for t in model["vocab"] if len(t) == 1 and t not in used), 60)
            free = [model["vocab"].pop(t) for t in gone]
            if r.random() < 0.7:
                model["byte_fallback"] = True
                wanted = sorted({"<0x%02X>" % b for t in gone for b in t.encode()})
                wanted = wanted[: len(free) - 1] if r.random() < 0.7 else wanted[: len(wanted) // 2]
                for spelling in wanted:
                    model["vocab"][spelling] = free.pop(0)
            if r.random() < 0.5:
                model["unk_token"], model["fuse_unk"] = "<unk>", r.random() < 0.5
                model["vocab"]["<unk>"] = free.pop()
            # As many entries as before: the added tokens keep their ids.
            for number in free:
                model["vocab"]["\u4e00%d" % number] = number
        if r.random() < 0.5:
            template = begin_template(v["added_tokens"][0])
            v["post_processor"] = r.choice([template, {"type": "Sequence", "processors": [GPT2, template]}])
        path = os.path.join(folder, "variant-%02d.json" % n)
        json.dump(v, open(path, "w"))
        cases(path, path + "l", part=0.02)


def pretokenizer(r, patterns, behaviors):
    """Returns a pre-tokenizer other than ByteLevel and Metaspace."""
    return r.choice([
        dict(ISOLATED, pattern=r.choice(patterns), behavior=r.choice(behaviors), invert=r.random() < 0.3),
        dict(ISOLATED, pattern=r.choice(patterns), behavior=r.choice(behaviors), invert=r.random() < 0.3),
        {"type": "Digits", "individual_digits": r.random() < 0.5},
        {"type": "Punctuation", "behavior": r.choice(behaviors)},
        {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": r.choice(" e▁")},
    ])


def characters(folder):
    """Writes tokenizer.json files of models of characters, with every supported setting at random, and their cases."""
    r = random.Random(5)
    base = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    base.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    base.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=["é", "中", "x", "İ", "ß", "\u0301", "\n"], show_progress=False)
    base.train_from_iterator(prose()[:200] + sources()[:20], trainer)
    base = json.loads(base.to_str())
    vocab = base["model"]["vocab"]
    for b in range(256):
        vocab["<0x%02X>" % b] = len(vocab)
    for content in ("<|user|>", "<extra>", "  "):
        vocab[content] = len(vocab)
        base["added_tokens"].append({"id": vocab[content], "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": content == "<|user|>"})
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    patterns = [{"String": " "}, {"String": "▁"}, {"Regex": r"\p{N}{1,3}"}, {"Regex": r"[\p{L}\p{M}]+|\p{Lu}+"}, {"Regex": r"\s+(?!\S)|\r?\n"}, {"Regex": r"[^\p{L}\s]+"}]
    normalizers = [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "NFC"}, {"type": "NFKC"}, {"type": "Lowercase"},
        {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    ]
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    for n in range(60):
        v = json.loads(json.dumps(base))
        chosen = r.sample(normalizers, r.randrange(4))
        v["normalizer"] = r.choice([None, {"type": "Sequence", "normalizers": chosen}, chosen[0] if chosen else None])
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": r.choice(["always", "never", "first"]), "split": r.random() < 0.6}
        if metaspace["prepend_scheme"] == "first":  # what can cut off the beginning of a text comes first
            chosen.sort(key=lambda n: n["type"] != "Strip" and 1 + (n["type"] != "Replace"))
            chosen = [n for i, n in enumerate(chosen) if n["type"] != "Replace" or n["content"] == "▁" or chosen[i - 1]["type"] == "Strip" or i == 0]
            if v["normalizer"]:
                v["normalizer"] = {"type": "Sequence", "normalizers": chosen}
        steps = [pretokenizer(r, patterns, behaviors) for _ in range(r.randrange(3))]
        if r.random() < 0.5:
            steps.insert(r.randrange(len(steps) + 1), metaspace)
        v["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if steps else None
        v["decoder"] = r.choice([
            dict(metaspace), {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": r.randrange(3), "stop": 0}]},
            {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}]}, {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, dict(metaspace)]},
        ])
        model = v["model"]
        model["ignore_merges"] = r.random() < 0.3
        model["byte_fallback"] = r.random() < 0.7
        model["fuse_unk"] = r.random() < 0.5
        if r.random() < 0.3:
            model["unk_token"] = None
        for token in v["added_tokens"]:
            for flag in ("single_word", "lstrip", "rstrip", "special", "normalized"):
                if r.random() < 0.2 and (flag != "normalized" or token["content"].strip()):  # else it may be nothing
                    token[flag] = not token[flag]
        if r.random() < 0.5:
            v["post_processor"] = begin_template(v["added_tokens"][1])
        path = os.path.join(folder, "characters-%02d.json" % n)
        json.dump(v, open(path, "w"))
        cases(path, path + "l", part=0.01)


def golden(folder):
    """Writes ../testdata/families.jsonl: small models set up as those of the families, one a line, each with texts and what the reference makes of them."""
    texts = ["", " ", "Hello, world!", "  two  spaces\n\nand 12345 + 6½ = x", "naïve café 中文字符 🙂 \u0301e\u0301", "İstanbul ſ K ﬁ Σς", "it's <s>a <|user|> b</s>", "▁x▁▁y", "a_b-c(d) \u3000e\t…«f»", "l'été\r\n١٢٣ Ⅷ",
             "\x00\x1f\x7f\u0085 \u200b\ufeff\ufffd", "  <|user|>  the cat<|user|>\n x<|user|>y ", "HelloWorld'LL I'm//\n\n\n   end  ", "a\u061db\u166dc\u2e43-\u00bf"]
    corpus = ["the cat sat on the mat and the dog ran to the house in 2024, 12345 times", "hello world hello there cat's café"] * 5
    r = random.Random(11)
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    chain = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Sequence", "decoders": chain + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    prepend = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    llama = {"type": "Sequence", "normalizers": prepend}
    sequence = lambda *parts: {"type": "Sequence", "pretokenizers": list(parts)}
    splits = lambda *patterns: sequence(*[dict(ISOLATED, pattern={"Regex": p}) for p in patterns], BYTE_LEVEL)
    digits = {"type": "Digits", "individual_digits": True}
    # Name, normalizer, pre-tokenizer, decoder, byte_fallback, and what else differs.
    settings = [
        ("Llama 2", llama, None, strip, True, {}),
        ("Gemma", prepend[1], {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, {"type": "Sequence", "decoders": chain}, True, {}),
        ("Mistral v3", None, dict(metaspace, split=False), strip, True, {}),
        ("Metaspace first", None, metaspace, metaspace, True, {}),
        ("Metaspace always", None, dict(metaspace, prepend_scheme="always", split=False), dict(metaspace, prepend_scheme="always"), False, {}),
        ("words", {"type": "NFKC"}, sequence({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, digits), {"type": "Fuse"}, False, {}),
        ("lower case", {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}]}, sequence({"type": "Whitespace"}, {"type": "Digits", "individual_digits": False}), {"type": "Fuse"}, True, {}),
        ("stripped before Metaspace", {"type": "Strip", "strip_left": True, "strip_right": False}, metaspace, metaspace, True, {}),
        ("replaced before Metaspace", {"type": "Replace", "pattern": {"Regex": "^(it|Hello|l)|  +"}, "content": " "}, metaspace, metaspace, True, {}),
        ("punctuation", None, sequence({"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL), GPT2, False, {}),
        ("SmolLM2", None, sequence(digits, GPT2), GPT2, False, {}),
        ("GPT-2 with a space before", None, dict(GPT2, add_prefix_space=True), GPT2, False, {}),
        ("Qwen 2", {"type": "NFC"}, splits(QWEN2), GPT2, False, {}),
        ("Llama 3", None, splits(QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")), GPT2, False, {"ignore_merges": True, "sequence": True}),
        ("DeepSeek", {"type": "Sequence", "normalizers": []}, splits(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK), GPT2, False, {}),
        ("gpt-oss", None, splits(O200K), GPT2, False, {"ignore_merges": True}),
        ("added tokens strip", None, splits(QWEN2), GPT2, False, {"lstrip": True, "rstrip": True}),
        ("added tokens are words", llama, None, strip, True, {"single_word": True, "normalized": True, "special": False}),
        ("added tokens are normalized", {"type": "Lowercase"}, GPT2, GPT2, False, {"normalized": True, "content": "THE CAT"}),
    ]
    with open(os.path.join(folder, "families.jsonl"), "w") as file:
        for name, normalizer, pre_tokenizer, decoder, fallback, other in settings:
            t = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
            level = decoder["type"] == "ByteLevel"
            if level:
                t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
            else:
                t.normalizer = tokenizers.normalizers.Replace(" ", "▁")
                t.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
            alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet() if level else []
            special = ["<unk>", "<s>", "</s>", other.get("content", "<|user|>")]
            t.train_from_iterator(corpus, tokenizers.trainers.BpeTrainer(vocab_size=90 + 256 * level, special_tokens=special, initial_alphabet=alphabet, show_progress=False))
            described = json.loads(t.to_str())
            for b in range(256 if fallback else 0):
                described["model"]["vocab"]["<0x%02X>" % b] = len(described["model"]["vocab"])
            begin = begin_template(described["added_tokens"][1])
            described.update(normalizer=normalizer, pre_tokenizer=pre_tokenizer, decoder=decoder, post_processor={"type": "Sequence", "processors": [GPT2, begin]} if "sequence" in other else begin)
            described["model"]["ignore_merges"] = other.get("ignore_merges", False)
            added = described["added_tokens"][3]
            added.update({flag: value for flag, value in other.items() if flag in added})
            whole = tokenizers.Tokenizer.from_str(json.dumps(described))
            results = []
            for text in texts:
                ids = whole.encode(text, add_special_tokens=False).ids
                results.append({"text": text, "ids": ids, "wrapped": whole.encode(text).ids, "decoded": whole.decode(ids, skip_special_tokens=False)})
            for _ in range(4):
                ids = [r.randrange(whole.get_vocab_size()) for _ in range(12)]
                results.append({"ids": ids, "decoded": whole.decode(ids, skip_special_tokens=False)})
            print(json.dumps({"name": name, "tokenizer": described, "cases": results}), file=file)


def begin_template(token):
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token["content"]: {"id": token["content"], "ids": [token["id"]], "tokens": [token["content"]]}},
    }


def template(path, out):
    """Writes the tokenizer with the post-processor of the published Llama 3, which the package's file lacks, and its cases."""
    described = json.load(open(path, encoding="utf-8"))
    described["post_processor"] = {"type": "Sequence", "processors": [described["post_processor"], begin_template(described["added_tokens"][0])]}
    json.dump(described, open(out, "w"))
    cases(out, out + "l", part=0.05)


def corpus(folder):
    for name, documents in (("english", prose()), ("code", sources())):
        size = 0
        with open(os.path.join(folder, name + ".jsonl"), "w") as file:
            for text in documents:
                if text and size < 6e6:
                    print(json.dumps(text), file=file)
                    size += len(text.encode())


def speed(name, path, corpora):
    tokenizer = tokenizers.Tokenizer.from_file(path)
    for file in corpora:
        documents = [json.loads(line) for line in open(file)]
        size = sum(len(d.encode()) for d in documents)
        best = 0
        for _ in range(3):
            for run in (lambda: [tokenizer.encode(d, add_special_tokens=False) for d in documents],
                        lambda: tokenizer.encode_batch_fast(documents, add_special_tokens=False)):
                start = time.perf_counter()
                run()
                best = max(best, size / 1e6 / (time.perf_counter() - start))
        print(f"{name:8} {pathlib.Path(file).stem:8} {size / 1e6:6.1f} MB   Hugging Face {best:6.1f} MB/s")


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "speed":
        speed(rest[0], rest[1], rest[2:])
    else:
        {"cases": cases, "variants": variants, "characters": characters, "golden": golden, "template": template, "corpus": corpus}[command](*rest)
