"""Writes the tokenizer.json files that transformers makes of Mistral's own files.

usage: mistral.py WHEEL_OF_MISTRAL_COMMON OUT_FOLDER

mistral_v1 is the SentencePiece model of the first 7B as published (spaces by a normalizer), mistral_v3 that of the later
ones (Metaspace), and mistral_tekken the byte-level vocabulary of Nemo with the pattern that its file names.
"""

import base64
import json
import os
import sys
import tempfile
import zipfile

import transformers
from transformers.integrations.mistral import MistralConverter


def sentencepiece(data, legacy, folder):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        tokenizer = transformers.LlamaTokenizerFast(vocab_file=file.name, legacy=legacy, add_prefix_space=True)
    os.makedirs(folder, exist_ok=True)
    tokenizer.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))


def tekken(data, folder):
    described = json.loads(data)
    config = described["config"]
    special = ["<unk>", "<s>", "</s>"]
    special += [f"<SPECIAL_{i}>" for i in range(len(special), config["default_num_special_tokens"])]
    vocab = {token: i for i, token in enumerate(special)}
    for entry in described["vocab"][: config["default_vocab_size"] - len(special)]:
        vocab[base64.b64decode(entry["token_bytes"])] = len(vocab)
    os.makedirs(folder, exist_ok=True)
    MistralConverter(vocab=vocab, pattern=config["pattern"], additional_special_tokens=special).converted().save(os.path.join(folder, "tokenizer.json"))


if __name__ == "__main__":
    wheel, out = sys.argv[1:]
    data = zipfile.ZipFile(wheel)
    read = lambda name: data.read("mistral_common/data/" + name)
    sentencepiece(read("tokenizer.model.v1"), True, os.path.join(out, "mistral_v1"))
    sentencepiece(read("mistral_instruct_tokenizer_240323.model.v3"), False, os.path.join(out, "mistral_v3"))
    tekken(read("tekken_240911.json"), os.path.join(out, "mistral_tekken"))
