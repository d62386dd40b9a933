"""What an engine would have said: tokens of the right number."""

import functools
import os
import random

_TOKENS = range(100, 400)  # of a few letters each, in any vocabulary, also a shrunk one


def completion(tokens):
    return random.choices(_TOKENS, k=tokens)


def prompt_ids(text, longest=None):
    ids = _tokenizer()(text, add_special_tokens=False)["input_ids"]
    return ids[-longest:] if longest else ids


@functools.cache
def _tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(os.environ["SERVED_MODEL"])
