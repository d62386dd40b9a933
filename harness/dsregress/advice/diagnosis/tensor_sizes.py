"""Tensors of known models that have the size of a refused allocation. Pure.

A message rounds a size to two decimals, and the native allocator rounds it up to 2 MiB before (`ROUNDING_BYTES`). A size
is explained by whole numbers only: tokens that are a multiple of the sequence length, or, if that is unknown, of 1,024;
if the model is unknown as well, a power of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dsregress.advice.diagnosis.out_of_memory import ROUNDING_BYTES, WrittenSize
from dsregress.messages import Message, Text, message
from skeletons.hub_names import known_model_name
from skeletons.known_models import known_models

#: Below this, many tensors of every model have the size.
LEAST_BYTES = 256 << 20

_WIDTHS: Mapping[int, Text] = {4: "fp32", 2: message("16 bits")}
_TOKENS = 1024
_MOST_SEQUENCES = 64

#: Elements of DeepSpeed's buckets by default (``reduce_bucket_size``, ``allgather_bucket_size``).
_BUCKET = 500_000_000

_SEQUENCE = re.compile(
    r"\b(?:cutoff_len|max_seq_length|max_seq_len|model_max_length|max_length|max_len|seq_length|sequence_length)"
    r"\b[\"']?\s{0,8}[:= ]\s{0,8}(\d{2,7})\b"
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{2,60}(?:/[A-Za-z0-9][\w.-]{1,80})?")


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a model that explain allocations."""

    name: str
    vocabulary: int
    hidden: int
    intermediate: int
    heads: int

    @classmethod
    def of(cls, name: str, configuration: Mapping[str, Any]) -> ModelShape | None:
        """Return the shape by the fields of a transformers configuration; None if some are missing."""
        fields = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")
        if any(field not in configuration for field in fields):
            return None
        vocabulary, hidden, intermediate, heads = (int(configuration[field]) for field in fields)
        return cls(name=name, vocabulary=vocabulary, hidden=hidden, intermediate=intermediate, heads=heads)


class SizeMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A product that explains a size."""

    nbytes: int
    product: str  #: ``2 x 4096 x 152064 x 4 bytes``
    what: Message  #: ``logits in fp32``
    model: str  #: empty if it is of no model
    is_assumed: bool  #: the text names no model: it follows from the size alone


def model_in(text: str) -> ModelShape | None:
    """Return the shape of the first known model that a text names, with or without its organization; None without one."""
    short = {name.rpartition("/")[2].lower(): name for name in reversed([*known_models()]) if "/" in name}
    for match in _NAME.finditer(text):
        for word in (match[0], match[0].rpartition("/")[2]):
            known = known_model_name(word) if "/" in word else short.get(word.lower())
            if known is not None and (shape := ModelShape.of(known, known_models()[known].config)) is not None:
                return shape
    return None


def sequence_in(text: str) -> int | None:
    """Return the sequence length that a text configures, in tokens; None if it configures none."""
    found = _SEQUENCE.search(text)
    return int(found[1]) if found and int(found[1]) > 0 else None


def matches(size: WrittenSize, model: ModelShape | None, sequence: int | None) -> tuple[SizeMatch, ...]:
    """Return the explanations of a size, the surest first; empty if there are none, or the size is below `LEAST_BYTES`."""
    if size.nbytes < LEAST_BYTES:
        return ()
    if model is not None:
        return tuple(_of_model(size, model, sequence))
    return tuple(_of_buckets(size)) or tuple(_of_any_model(size, sequence))


def _of_model(size: WrittenSize, model: ModelShape, sequence: int | None) -> Iterator[SizeMatch]:
    for width, words in _WIDTHS.items():
        per_token = {
            message("logits in {dtype}", dtype=words): model.vocabulary,
            message("activations of an MLP in {dtype}", dtype=words): model.intermediate,
        }
        for what, features in per_token.items():
            yield from _of_tokens(size, features, width, what, model.name, sequence)
    for width, words in _WIDTHS.items():
        what = message("the embedding in {dtype}", dtype=words)
        yield from _exactly(size, model.vocabulary, model.hidden, width, what, model.name)
    if sequence is not None:
        for width, words in _WIDTHS.items():
            features = model.heads * sequence
            what = message("attention scores in {dtype}", dtype=words)
            yield from _of_tokens(size, features, width, what, model.name, sequence)
    yield from _of_buckets(size)


def _of_any_model(size: WrittenSize, sequence: int | None) -> Iterator[SizeMatch]:
    """Yield logits of the size, for the vocabulary of any known model."""
    by_vocabulary: dict[int, str] = {}
    for name, model in known_models().items():
        if "vocab_size" in model.config:  # models that see or hear have none
            by_vocabulary.setdefault(model.config["vocab_size"], name)
    for width, words in _WIDTHS.items():
        for vocabulary, name in sorted(by_vocabulary.items(), reverse=True):
            for found in _of_tokens(size, vocabulary, width, message("logits in {dtype}", dtype=words), name, sequence):
                tokens = found.nbytes // (vocabulary * width)
                if sequence is not None or tokens & (tokens - 1) == 0:
                    yield msgspec.structs.replace(found, is_assumed=True)


def _of_buckets(size: WrittenSize) -> Iterator[SizeMatch]:
    for width, words in _WIDTHS.items():
        if _fits(size, _BUCKET * width):
            yield SizeMatch(
                nbytes=_BUCKET * width,
                product=f"{_BUCKET} x {width} bytes",
                what=message("a bucket of DeepSpeed's default size in {dtype}", dtype=words),
                model="",
                is_assumed=False,
            )


def _of_tokens(
    size: WrittenSize, features: int, width: int, what: Message, model: str, sequence: int | None
) -> Iterator[SizeMatch]:
    unit = (sequence or _TOKENS) * features * width
    for count in {int(size.nbytes // unit), int(size.nbytes // unit) + 1}:
        if 0 < count <= (_MOST_SEQUENCES if sequence else _MOST_SEQUENCES * 8) and _fits(size, count * unit):
            tokens = f"{count} x {sequence}" if sequence else f"{count * _TOKENS}"
            yield SizeMatch(
                nbytes=count * unit,
                product=f"{tokens} x {features} x {width} bytes",
                what=what,
                model=model,
                is_assumed=False,
            )


def _exactly(size: WrittenSize, rows: int, columns: int, width: int, what: Message, model: str) -> Iterator[SizeMatch]:
    nbytes = rows * columns * width
    if _fits(size, nbytes):
        product = f"{rows} x {columns} x {width} bytes"
        yield SizeMatch(nbytes=nbytes, product=product, what=what, model=model, is_assumed=False)


def _fits(size: WrittenSize, nbytes: int) -> bool:
    """Return True if a request of ``nbytes`` may be written as ``size``, with or without the allocator's rounding."""
    rounded = -(-nbytes // ROUNDING_BYTES) * ROUNDING_BYTES
    return any(abs(size.nbytes - one) <= size.rounding_bytes for one in (nbytes, rounded))
