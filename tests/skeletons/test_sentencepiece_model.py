"""Both files of a synthetic SentencePiece vocabulary encode alike. Where this project is tested there is sentencepiece, and
in a release's environment tokenizers: each reads its own file, and has to give the same pieces."""

from __future__ import annotations

import json

import pytest

from skeletons import tokenizer
from skeletons.tokenizer_families import tokenizer_families

TEXT = "Hello the quick  fox,\n\u4f60\u00e4!"

_WORDS = ["\u2581the", "\u2581qu", "i", "c", "k", "\u2581", "\u2581fo", "x", ","]
_BYTES = ["<0x0A>", "<0xE4>", "<0xBD>", "<0xA0>", "<0xC3>", "<0xA4>"]
EXPECTED = {
    "llama-2": ["\u2581Hel", "lo", *_WORDS, *_BYTES, "!"],
    "gemma": ["H", "e", "l", "lo", *_WORDS, *_BYTES, "!"],  # no space at the beginning
    "t5": ["\u2581Hel", "lo", *_WORDS, "\n\u4f60\u00e4", "!"],  # one unknown piece
    "mdeberta-v3": ["\u2581Hel", "lo", *_WORDS, "\n\u4f60\u00e4", "!"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_tokenizer_written_in_python_reads_the_protocol_buffer(name: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    family = tokenizer_families()[name]
    read = sentencepiece.SentencePieceProcessor()
    read.LoadFromSerializedProto(tokenizer.tokenizer_files(family)[family.sentencepiece])
    assert read.encode(TEXT, out_type=str) == EXPECTED[name]
    special = (read.unk_id(), read.bos_id(), read.eos_id(), read.pad_id())
    roles = (family.unk, family.bos, family.eos, family.pad)
    assert [family.special.get(index, "") for index in special] == list(roles)
    if not family.unigram:
        assert read.decode(read.encode(TEXT)) == TEXT


@pytest.mark.parametrize("name", [name for name in EXPECTED if not tokenizer_families()[name].without_fast])
def test_a_fast_tokenizer_reads_the_json(name: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    read = tokenizers.Tokenizer.from_str(
        tokenizer.tokenizer_files(tokenizer_families()[name])["tokenizer.json"].decode()
    )
    encoded = read.encode(TEXT, add_special_tokens=False)
    assert encoded.tokens == EXPECTED[name]
    if not tokenizer_families()[name].unigram:
        assert read.decode(encoded.ids) == TEXT


def test_a_family_without_a_fast_tokenizer_has_the_published_files_alone() -> None:
    """Releases of transformers make a fast one of it, each in its own way: with special tokens around a text, or without."""
    files = tokenizer.tokenizer_files(tokenizer_families()["deberta-v3"])
    assert sorted(files) == ["spm.model", "tokenizer_config.json"]
    assert json.loads(files["tokenizer_config.json"]) == {"do_lower_case": False, "vocab_type": "spm"}
