"""The requirements that a README states outside of a line ``pip install ...``: pins between backquotes, and the lists of a
section such as *Dependencies*."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: ``a fix of `timm==0.3.2` is needed``.
_QUOTED_PIN = re.compile(r"`([A-Za-z][\w.-]*==\d[\w.]*)`")

_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
_OF_PACKAGES = re.compile(r"depend|require|prerequisite|install|environment|set[- ]?up", re.IGNORECASE)

#: ``- [PyTorch](https://pytorch.org) >= 1.8``, ``* transformers 4.28.1``. Without a sign it is the release that was used.
_ITEM = re.compile(
    r"^\s*[-*+]\s+[\[`*]*([A-Za-z][\w.-]*)[\]`*]*(?:\([^)\s]*\))?\s*(==|>=|<=|~=|=|v(?:ersion)?)?\s*(\d+(?:\.\d+)+)[`*]*\s*[.,;]?$",
    re.MULTILINE,
)

_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BARE = re.compile(r"[A-Za-z][\w.-]*(?:\[[\w,-]+\])?(?:\s*(?:==|>=|<=|~=|<|>)\s*[\w.]+)?")


def stated_requirements(text: str) -> Iterator[str]:
    """Yield the requirements that the text of a README states."""
    yield from _QUOTED_PIN.findall(text)
    text = _FENCE.sub(lambda found: found[0].replace("\n#", "\n "), text)  # a shell's comment is no heading
    parts = _HEADING.split(text)[1:]
    for heading, section in zip(parts[::2], parts[1::2], strict=True):
        if _OF_PACKAGES.search(heading):
            for name, sign, release in _ITEM.findall(_FENCE.sub("", section)):
                yield f"{name}{sign if sign in ('==', '>=', '<=', '~=') else '=='}{release}"
            for block in _FENCE.findall(section):
                lines = [line.strip() for line in block.splitlines() if line.strip()]
                if all(_BARE.fullmatch(line) for line in lines):
                    yield from lines
