"""Names of tensors without the numbers of their layers, so that alike ones are told together."""

from __future__ import annotations

import re

#: The number of a layer or an expert: a name's parts between dots.
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def without_numbers(name: str) -> str:
    """Return ``layers.*.mlp.weight`` for ``layers.3.mlp.weight``."""
    return _NUMBER.sub("*", name)
