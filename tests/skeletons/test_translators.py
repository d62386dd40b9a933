"""Models that translate, and their tokenizers, as transformers loads them. Needs transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers

from skeletons import make


@pytest.mark.parametrize(
    ("name", "languages", "token"),
    [
        ("facebook/nllb-200-distilled-600M", {"src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}, "fra_Latn"),
        ("facebook/mbart-large-50", {"src_lang": "en_XX", "tgt_lang": "de_DE"}, "de_DE"),
    ],
)
def test_a_target_begins_with_its_language(name: str, languages: dict[str, str], token: str, tmp_path: Path) -> None:
    make.make_skeleton(name, tmp_path, shrunk=True)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path, **languages)
    ids = read("the world", text_target="the world")["labels"]
    assert read.convert_ids_to_tokens(ids)[0] == token
    assert read.decode(ids, skip_special_tokens=True) == "the world"


def test_marians_tokenizer_reads_a_model_for_each_language(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    make.make_skeleton("Helsinki-NLP/opus-mt-en-de", tmp_path, shrunk=True)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = read("Hello", text_target="the world")["labels"]
    assert ids[-1] == read.eos_token_id == 0
    assert read.decode(ids, skip_special_tokens=True) == "the world"
