"""tiktoken's encodings without a network. Needs tiktoken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

tiktoken = pytest.importorskip("tiktoken")

from dsregress.programs.substitutes.synthetic_encodings import made_up_encodings  # noqa: E402
from dsregress.programs.world import local_sockets  # noqa: E402

#: ``n_vocab``, and ``eot_token`` where one is published.
SIZES = {"gpt2": 50_257, "r50k_base": 50_257, "p50k_base": 50_281, "cl100k_base": 100_277, "o200k_base": 200_019}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with local_sockets.local_sockets_only():
        yield
    tiktoken.registry.ENCODINGS.clear()


@pytest.mark.parametrize("name", SIZES)
def test_an_encoding_has_the_published_size_and_encodes_any_text(name: str) -> None:
    with made_up_encodings():
        encoding = tiktoken.get_encoding(name)
    text = "The people of the town, 1234 \u00e9\u4e2d\n\n  words."
    ids = encoding.encode(text)
    assert encoding.n_vocab == SIZES[name]
    assert encoding.decode(ids) == text
    assert len(ids) < len(text.encode())
    assert encoding.encode("<|endoftext|>", allowed_special="all") == [encoding.eot_token]


def test_other_files_are_not_made_up() -> None:
    from tiktoken import load

    with made_up_encodings(), pytest.raises(Exception, match="example"):
        load.load_tiktoken_bpe("https://example.invalid/own.tiktoken")
