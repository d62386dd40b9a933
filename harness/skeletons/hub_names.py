"""Maps names on the hub to known models. Without torch.

``tables/fine_tuned.json`` maps patterns of names to a model of the same shapes and kind of tokenizer, by their cards.
``tables/own_code.json`` has patterns of the names of repositories whose cards load them with ``trust_remote_code=True``.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping

from skeletons.known_models import known_models
from skeletons.table_files import read_table

#: The organisation whose models sentence-transformers takes by their own names alone.
_SHORT = "sentence-transformers"

#: A model's name says which size it is.
_SIZED = re.compile(
    r"\d(?:\.\d+)?[bm](?=$|[-_.])|[-_](?:tiny|small|base|medium|large|xl|xxl)(?=$|[-_.])|^gpt2|large-v\d"
)

#: A model's name says how many billions of parameters it has.
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)b(?![a-z])")

_LEAST_LIKENESS = 0.6


def known_model_name(name: str) -> str | None:
    """Return the known model that a name means: itself, or the one that it mirrors or was fine-tuned from; None if there is
    none. Case does not matter, as on the hub."""
    return _published(name) or _called_after(name) or _copied(name) or _published(f"{_SHORT}/{name}")


def is_called_after_another(name: str) -> bool:
    """Return True for a model of which only its name says from which known one it was fine-tuned."""
    return _published(name) is None and known_model_name(name) is not None


def has_own_code(name: str) -> bool:
    """Return True for a model that is not known, and whose classes are Python files of its repository."""
    given = name.lower()
    return known_model_name(name) is None and any(
        fnmatch.fnmatchcase(given, pattern.lower()) for pattern in read_table("own_code")
    )


def _published(name: str) -> str | None:
    """Return the known model that a name means by the tables or by its publisher; None if there is none."""
    given = name.lower()
    by_lower = _by_lower()
    if given in by_lower:
        return by_lower[given]
    listed = (base for pattern, base in fine_tuned().items() if fnmatch.fnmatchcase(given, pattern.lower()))
    return next(listed, None) or mirrored(given, by_lower.values())


def mirrored(name: str, known: Iterable[str]) -> str | None:
    """Return the known name whose last part a name has under another organisation, as mirrors call what they copy
    (``LLM-Research/Meta-Llama-3-8B``); None without one. The last part has a digit: ``bark`` may be anything."""
    organisation, _, short = name.lower().partition("/")
    if not organisation or not any(letter.isdigit() for letter in short):
        return None
    return next((one for one in known if one.lower().rpartition("/")[2] == short), None)


def _called_after(name: str) -> str | None:
    """Return the known model whose name a model's own is, or begins with, as people call what they copied or fine-tuned:
    ``me/Llama-3.2-1B-Instruct-cold-start``, ``checkpoints/Qwen2.5-7B``; None if the rest of it says that its shapes are
    others, or its publisher is that model's own, who calls other models so too (``whisper-large-v3-turbo``)."""
    organisation, _, short = name.lower().partition("/")
    bases = [lower for lower in _by_lower() if _begins_with(short, lower.rpartition("/")[2])]
    if any(lower.partition("/")[0] == organisation for lower in bases):
        return None
    longest = max(bases, key=lambda lower: len(lower.rpartition("/")[2]), default="")
    rest = short[len(longest.rpartition("/")[2]) :]
    return _by_lower()[longest] if longest and not _of_other_shapes().search(rest) else None


def _copied(name: str) -> str | None:
    """Return the known model from which one of this name was fine-tuned that another publishes:
    ``checkpoints/vicuna-7b-v1.5``. The name says a size; None without one."""
    organisation, _, short = name.lower().partition("/")
    if not organisation or not _SIZED.search(short):
        return None
    for pattern, base in fine_tuned().items():
        part = pattern.lower().partition("/")[2]
        first = part.partition("*")[0]
        if first and fnmatch.fnmatchcase(short, part) and not _of_other_shapes().search(short[len(first) :]):
            return base
    return None


def _begins_with(short: str, name: str) -> bool:
    """Return True if a name is that of a model, or goes on after it, which says a size: ``t5-small`` does, ``bert`` none."""
    is_whole = short == name or (short.startswith(name) and short[len(name)] in "-_.")
    return is_whole and bool(_SIZED.search(name))


def known_model_of_folder(name: str) -> str | None:
    """Return the known model whose name a folder has, as after ``git clone``, or begins with: ``Qwen2.5-3B-Instruct-sft``;
    None without one."""
    short = name.lower()
    for pattern in (*known_models(), *fine_tuned()):
        organisation, _, of_model = pattern.lower().partition("/")
        if of_model.strip("*") and fnmatch.fnmatchcase(short, of_model):
            return known_model_name(f"{organisation}/{short}")
    return known_model_name(f"a-folder/{short}")


def nearest_known_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like one that is not known, of the same family: both begin with the same letters; None if
    none is like it."""
    short = name.lower().rpartition("/")[2]
    family = re.match(r"[a-z]+", short)
    relatives: dict[str, str] = {}
    for one in known:
        own = one.lower().rpartition("/")[2]
        if family and re.match(rf"{family[0]}(?![a-z])", own):
            relatives.setdefault(own, one)
    likeness = {own: _likeness(short, own) for own in relatives}
    best = max(likeness.values(), default=0.0)
    if best < _LEAST_LIKENESS:
        return None
    alike = (own for own in relatives if likeness[own] == best)
    return relatives[min(alike, key=lambda own: abs(_billions(own) - _billions(short)))]


def _likeness(one: str, other: str) -> float:
    """Return how alike two names are without the sizes that they state, from 0 to 1."""
    return difflib.SequenceMatcher(None, _BILLIONS.sub("", one), _BILLIONS.sub("", other)).ratio()


def _billions(short: str) -> float:
    """Return the size that a name states, in billions; 0 without one."""
    stated = _BILLIONS.search(short)
    return float(stated[1]) if stated else 0.0


@functools.cache
def _of_other_shapes() -> re.Pattern[str]:
    """Return the pattern of parts of a name that say that a model has other shapes than the one after which it is called:
    quantised, an adapter, of other layers or of another size."""
    return re.compile(rf"(?:^|[-_.])(?:{'|'.join(read_table('other_shapes'))})(?=$|[-_.])")


@functools.cache
def fine_tuned() -> Mapping[str, str]:
    """Return pattern of names on the hub -> known model that such a model was fine-tuned from."""
    return dict(read_table("fine_tuned"))


@functools.cache
def _by_lower() -> dict[str, str]:
    return {name.lower(): name for name in known_models()}
