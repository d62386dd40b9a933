"""A synthetic SentencePiece vocabulary: BPE with byte fallback, as Llama 2, Mistral and Gemma have, or a unigram model, as
T5 has. No torch, and no sentencepiece.

Tokenizers written in Python read it from a protocol buffer, ``tokenizer.model`` or ``spiece.model``; fast ones from
``tokenizer.json``. Both encode alike: in BPE a piece is made of any two neighbors that give it together, the one with the
highest score first; a unigram model chooses the pieces whose scores, logarithms of probabilities, have the highest sum.
Field numbers: ``sentencepiece_model.proto`` of google/sentencepiece.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Mapping

from skeletons.tokenizer_families import TokenizerFamily

#: SentencePiece's character for a space.
SPACE = "\u2581"

#: Pieces of one character; any other is written as its bytes.
CHARACTERS = (SPACE, *(chr(code) for code in range(0x21, 0x7F)))

_BYTES = {f"<0x{byte:02X}>" for byte in range(256)}

#: ``ModelProto.SentencePiece.Type``
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


def first_texts(family: TokenizerFamily) -> list[str]:
    """Return the pieces that suffice to encode English text, and with BPE any text."""
    return [*CHARACTERS] if family.unigram else [*sorted(_BYTES), *CHARACTERS]


def sentencepiece_file(family: TokenizerFamily, vocabulary: Mapping[str, int]) -> bytes:
    """Return the protocol buffer. ``vocabulary`` is text -> id, in the order of the ids from 0."""
    special = set(family.special.values())
    parts = []
    for text, index in vocabulary.items():
        kind = _UNKNOWN if text == family.unk else _CONTROL if text in special else _BYTE if text in _BYTES else _NORMAL
        score = _score(family, index) if kind == _NORMAL else 0.0
        parts.append(_message(1, _text_field(1, text) + _field_key(2, 5) + struct.pack("<f", score) + _number(3, kind)))
    ids = (family.unk, family.bos, family.eos, family.pad)
    trainer = b"".join(
        (
            _number(3, 1 if family.unigram else 2),  # model_type: UNIGRAM, BPE
            _number(4, len(vocabulary)),
            _number(35, int(not family.unigram)),  # byte_fallback
            *(_number(40 + at, vocabulary.get(text, -1) if text else -1) for at, text in enumerate(ids)),
            *(_text_field(45 + at, text) for at, text in enumerate(ids) if text),
        )
    )
    normalizer = b"".join(
        (
            _text_field(1, "identity"),
            _number(3, int(family.spaces_first)),  # add_dummy_prefix
            _number(4, 0),  # remove_extra_whitespaces
            _number(5, 1),  # escape_whitespaces
        )
    )
    return b"".join((*parts, _message(2, trainer), _message(3, normalizer)))


def fast_parts(family: TokenizerFamily, vocabulary: Mapping[str, int]) -> dict[str, object]:
    """Return the parts of ``tokenizer.json`` that are specific to such a vocabulary."""
    if family.unigram:
        metaspace = {"type": "Metaspace", "replacement": SPACE, "add_prefix_space": True}
        scores = [[text, _score(family, index)] for text, index in vocabulary.items()]
        unigram = {"type": "Unigram", "unk_id": vocabulary[family.unk], "vocab": scores, "byte_fallback": False}
        return {"normalizer": None, "pre_tokenizer": metaspace, "decoder": metaspace, "model": unigram}
    put = [{"type": "Prepend", "prepend": SPACE}] if family.spaces_first else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if family.spaces_first else []
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*put, {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}],
        },
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": family.unk,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": dict(vocabulary),
            "merges": [f"{left} {right}" for left, right in _merges(vocabulary, family.special)],
        },
    }


def _merges(vocabulary: Mapping[str, int], special: Mapping[int, str]) -> list[tuple[str, str]]:
    """Return every two pieces that give a piece, in the order in which they apply."""
    whole = set(vocabulary) - _BYTES - set(special.values())
    return [
        (text[:at], text[at:])
        for text in vocabulary
        if text in whole
        for at in range(1, len(text))
        if text[:at] in whole and text[at:] in whole
    ]


def _score(family: TokenizerFamily, index: int) -> float:
    """Return the score of a piece: the highest for frequent pieces, which come first. By Zipf's law a probability falls with
    the rank."""
    return -math.log(index + 2) if family.unigram else -float(index)


def _message(field: int, content: bytes) -> bytes:
    return _field_key(field, 2) + _varint(len(content)) + content


def _text_field(field: int, text: str) -> bytes:
    return _message(field, text.encode())


# Most of a quarter of a million pieces repeat the bytes before and after their texts.
@functools.lru_cache
def _number(field: int, value: int) -> bytes:
    return _field_key(field, 0) + _varint(value)


@functools.lru_cache
def _field_key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


@functools.lru_cache
def _varint(value: int) -> bytes:
    """Return an integer as protocol buffers write it; a negative one as 64 bits."""
    return bytes(_groups(value % (1 << 64)))


def _groups(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
