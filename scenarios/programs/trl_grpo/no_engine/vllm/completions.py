"""What an engine would have said: tokens of the right number."""

import functools
import os
import random

_TOKENS = range(100, 400)  # of a few letters each, in any vocabulary, also a shrunk one


def completion(tokens):
    return random.choices(_TOKENS, k=tokens)


def prompt_ids(prompt, longest=None):
    """Of a text, of tokens, or of a dictionary with either."""
    if isinstance(prompt, dict):
        prompt = prompt["prompt_token_ids"] if "prompt_token_ids" in prompt else prompt["prompt"]
    ids = _tokenizer()(prompt, add_special_tokens=False)["input_ids"] if isinstance(prompt, str) else list(prompt)
    return ids[-longest:] if longest else ids


@functools.cache
def _tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(os.environ["SERVED_MODEL"])
