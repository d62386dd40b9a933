"""Maps names on the hub to known models. Without torch.

``tables/fine_tuned.json`` maps patterns of names to a model of the same shapes and kind of tokenizer, by their cards.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping

from skeletons.known_models import known_models
from skeletons.table_files import read_table

#: Organisations that publish models of others under their own names.
_MIRRORS = ("nousresearch", "unsloth")


def known_model_name(name: str) -> str | None:
    """Return the known model that a name means: itself, or the one that it mirrors or was fine-tuned from; None if there is
    none. Case does not matter, as on the hub."""
    given = name.lower()
    by_lower = _by_lower()
    if given in by_lower:
        return by_lower[given]
    organisation, _, short = given.partition("/")
    if organisation in _MIRRORS:
        for lower, full in by_lower.items():
            if lower.rpartition("/")[2] == short:
                return full
    return next((base for pattern, base in fine_tuned().items() if fnmatch.fnmatchcase(given, pattern.lower())), None)


def known_model_of_folder(name: str) -> str | None:
    """Return the known model whose name a folder has, as after ``git clone``: ``Qwen2.5-3B-Instruct``; None without one."""
    short = name.lower()
    for pattern in (*known_models(), *fine_tuned()):
        organisation, _, of_model = pattern.lower().partition("/")
        if of_model.strip("*") and fnmatch.fnmatchcase(short, of_model):
            return known_model_name(f"{organisation}/{short}")
    return None


@functools.cache
def fine_tuned() -> Mapping[str, str]:
    """Return pattern of names on the hub -> known model that such a model was fine-tuned from."""
    return dict(read_table("fine_tuned"))


@functools.cache
def _by_lower() -> dict[str, str]:
    return {name.lower(): name for name in known_models()}
