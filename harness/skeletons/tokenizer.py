"""A synthetic tokenizer, byte-level BPE or SentencePiece's: any size, given special tokens, made without a corpus or a
network. No torch.

Its first tokens are the 256 bytes, or characters, so that any text can be encoded and decoded. Then come merges for frequent
English words (`skeletons.words`), which encode English text in about as many tokens per word as a trained
vocabulary does. The rest, to the full size, are pronounceable words that hardly any text has: they can be generated and
decoded.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from skeletons import sentencepiece_model
from skeletons.tokenizer_families import FAIRSEQ_MODEL, TokenizerFamily
from skeletons.words import PIECES, WORDS

#: Byte-level BPE's character for a space, as GPT-2 chose it.
SPACE = "\u0120"

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"


def tokenizer_files(family: TokenizerFamily) -> dict[str, bytes]:
    """Return file name -> content: ``tokenizer.json`` if there is one, its settings, and the files that tokenizers
    written in Python read."""
    vocabulary, merges = _vocabulary(family)
    if family.sentencepiece:
        own = sentencepiece_model.fast_parts(family, vocabulary)
        is_read = family.sentencepiece != FAIRSEQ_MODEL
        read = {family.sentencepiece: sentencepiece_model.sentencepiece_file(family, vocabulary)} if is_read else {}
        if family.tokenizer_class == "MarianTokenizer":  # it has one for each language, and looks ids up itself
            read["target.spm"] = read[family.sentencepiece]
            read["vocab.json"] = json.dumps(vocabulary, ensure_ascii=False).encode()
    else:
        own = _byte_level(vocabulary, merges)
        lines = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)
        read = {"vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(), "merges.txt": lines.encode()}
    if family.without_fast:
        return {"tokenizer_config.json": json.dumps(dict(family.without_fast), indent=1).encode(), **read}
    return {
        "tokenizer.json": json.dumps(_fast(family, own), ensure_ascii=False).encode(),
        "tokenizer_config.json": json.dumps(_settings(family), ensure_ascii=False, indent=1).encode(),
        "special_tokens_map.json": json.dumps(_roles(family), ensure_ascii=False, indent=1).encode(),
        **read,
    }


def byte_texts() -> list[str]:
    """Return the character that stands for each byte, by byte: itself if it is printable, else one beyond Latin-1."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def byte_tokens(count: int) -> list[bytes]:
    """Return the tokens of a byte-level vocabulary of this size without special ones: the bytes, then merges in their
    order."""
    vocabulary, _ = _vocabulary(TokenizerFamily(tokens=count, special={}, eos=""))
    byte_of = {text: byte for byte, text in enumerate(byte_texts())}
    return [bytes(byte_of[character] for character in text) for text in vocabulary]


def _vocabulary(family: TokenizerFamily) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return text -> id, and the merges in the order in which byte-level BPE applies them. Special tokens behind the last
    word are left out, except those of the family's vocabulary proper."""
    tail = family.tokens  # the ids from here on are special tokens that are added, without a gap
    while tail - 1 in family.special and tail > family.proper:
        tail -= 1
    inside = {index: text for index, text in family.special.items() if index < tail}
    free = tail - len(inside)
    space, first = SPACE, byte_texts()
    if family.sentencepiece:
        space, first = sentencepiece_model.SPACE, sentencepiece_model.first_texts(family)
    texts: dict[str, None] = dict.fromkeys(first)
    if free < len(texts):
        raise ValueError(f"a vocabulary of {free} has no room for the {len(texts)} tokens of single characters")
    merges = []
    for left, right in _merges(space):
        if len(texts) == free:
            break
        if left + right not in texts:
            texts[left + right] = None
            merges.append((left, right))
    for text in _pronounceable(space):
        if len(texts) == free:
            break
        texts[text] = None
    rest = iter(texts)
    return {inside.get(index) or next(rest): index for index in range(tail)}, merges


def _merges(space: str) -> Iterator[tuple[str, str]]:
    """Yield the merges of each word, letter by letter from its beginning. Those with a space before them come first, so that
    they win."""
    for word in WORDS:
        yield from _chain(space + word)
    for word in [*PIECES, *WORDS]:
        yield from _chain(word)
    for word in WORDS:
        yield from _chain(space + word.capitalize())


def _chain(text: str) -> Iterator[tuple[str, str]]:
    for end in range(1, len(text)):
        yield text[:end], text[end]


def _pronounceable(space: str) -> Iterator[str]:
    syllables = [a + b for a in _CONSONANTS for b in _VOWELS]
    for count in itertools.count(2):
        for parts in itertools.product(syllables, repeat=count):
            yield space + "".join(parts)


def _byte_level(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> dict[str, object]:
    """Return the parts of ``tokenizer.json`` that are specific to byte-level BPE."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    return {
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": level,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [f"{left} {right}" for left, right in merges],
        },
    }


def _fast(family: TokenizerFamily, own: dict[str, object]) -> dict[str, object]:
    """Return ``tokenizer.json``, as the tokenizers library writes it."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, **_token(family, text)} for index, text in sorted(family.special.items())],
        "post_processor": None,
        **own,
        **({"post_processor": _template(family)} if family.adds_bos or family.template else {}),
    }


def _template(family: TokenizerFamily) -> dict[str, object]:
    """Return the special tokens around each text, and each pair of them."""
    single = (family.template or f"{family.bos} A").split()
    pair = (family.pair_template or f"{family.bos} A B").split()
    ids = {text: index for index, text in family.special.items()}

    def part(text: str, kind: int) -> dict[str, Any]:
        if text in ("A", "B"):
            return {"Sequence": {"id": text, "type_id": kind}}
        return {"SpecialToken": {"id": text, "type_id": kind}}

    return {
        "type": "TemplateProcessing",
        "single": [part(text, 0) for text in single],
        # A separator belongs to the text before it, so the second text begins at itself.
        "pair": [part(text, int("B" in pair[: index + 1])) for index, text in enumerate(pair)],
        "special_tokens": {
            text: {"id": text, "ids": [ids[text]], "tokens": [text]}
            for text in dict.fromkeys([*single, *pair])
            if text not in "AB"
        },
    }


def _token(family: TokenizerFamily, text: str) -> dict[str, object]:
    return {
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": text not in family.plain,
    }


def _roles(family: TokenizerFamily) -> dict[str, str]:
    roles = {
        "bos_token": family.bos,
        "eos_token": family.eos,
        "pad_token": family.pad,
        "unk_token": family.unk,
        "cls_token": family.cls,
        "sep_token": family.sep,
        "mask_token": family.mask,
    }
    return {role: text for role, text in roles.items() if text}


def _settings(family: TokenizerFamily) -> dict[str, Any]:
    """Return ``tokenizer_config.json``."""
    settings: dict[str, Any] = {
        "tokenizer_class": family.tokenizer_class,
        "model_max_length": family.max_length,
        "clean_up_tokenization_spaces": False,
        # Without it, the generic class gives every model token_type_ids, which most refuse.
        "model_input_names": ["input_ids", *(["token_type_ids"] if family.numbers_texts else []), "attention_mask"],
        "added_tokens_decoder": {str(index): _token(family, text) for index, text in sorted(family.special.items())},
        **dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token")),
        **_roles(family),
    }
    if family.sentencepiece:  # the classes of these have defaults of their own
        settings["add_bos_token"] = family.adds_bos
    if family.tokenizer_class == "T5Tokenizer":
        settings["extra_ids"] = sum(text.startswith("<extra_id_") for text in family.special.values())
    if family.named:
        settings |= {**dict(family.named), "extra_special_tokens": dict(family.named)}
    if family.legacy is not None:
        settings["legacy"] = family.legacy
    if family.chat_template:
        settings["chat_template"] = family.chat_template
    return settings
