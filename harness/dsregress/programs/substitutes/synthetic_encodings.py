"""tiktoken's encodings without a download: if its cache has none, synthetic ones of the published sizes, like a
skeleton's tokenizer (`skeletons.tokenizer`): any text can be encoded and decoded, into other tokens than
the real ones."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator

from skeletons import tokenizer
from vgpu.replacing import Patches

#: File that tiktoken downloads -> the number of tokens that it ranks, and the ranks among them that it leaves to special
#: tokens. Source: tiktoken's ``openai_public.py`` and the assertions in its ``Encoding``.
_PUBLISHED: dict[str, tuple[int, frozenset[int]]] = {
    "vocab.bpe": (50_256, frozenset()),
    "r50k_base.tiktoken": (50_256, frozenset()),
    "p50k_base.tiktoken": (50_280, frozenset((50_256,))),
    "cl100k_base.tiktoken": (100_256, frozenset()),
    "o200k_base.tiktoken": (199_998, frozenset()),
}


@contextlib.contextmanager
def made_up_encodings() -> Iterator[None]:
    """Let ``tiktoken.get_encoding`` work without a network within the block."""
    if importlib.util.find_spec("tiktoken") is None:
        yield
        return
    try:
        from tiktoken import load
    except ImportError:  # the program raises it itself if it needs tiktoken
        yield
        return
    with Patches("encodings without a download") as patches:
        for name in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
            original = getattr(load, name)
            patches.everywhere(original, _or_made_up(original), name)
        yield


def _or_made_up(original: Callable[..., dict[bytes, int]]) -> Callable[..., dict[bytes, int]]:
    @functools.wraps(original)
    def ranks(*args: object, **options: object) -> dict[bytes, int]:
        try:
            return original(*args, **options)
        except Exception:  # of any HTTP client; raised again unless the file is known
            file = args[0] if args else options.get("vocab_bpe_file", options.get("tiktoken_bpe_file"))
            published = _PUBLISHED.get(str(file).rpartition("/")[2]) if "://" in str(file) else None
            if published is None:
                raise
        count, left_out = published
        free = (rank for rank in range(count + len(left_out)) if rank not in left_out)
        return dict(zip(tokenizer.byte_tokens(count), free))

    return ranks
