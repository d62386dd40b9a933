"""A version spec, as the user writes it -> releases that exist.

A spec is a list of items between commas: an exact version (``0.16.4``, ``==0.16.4``), a series (``0.16.*``), ``latest``
(the newest final release), or a comparison (``>=0.16``, ``<0.17``, ``!=0.16.3``, ``~=0.16.2``). PEP 440 uses commas for
"and" and a list uses them for "or". Here:

- a comparison narrows the range to its left: ``>=0.16,<0.17`` is one range, ``0.16.*,!=0.16.3`` is the series but one;
- an exact version, a series or ``latest`` begins a new item: ``0.15.0,>=0.16,<0.17,latest`` has three;
- a comparison to the right of an exact version or ``latest`` begins a new range, as those cannot be narrowed.

Releases of one range come in version order, items in the order given; each release once. Pre-releases are found only
where the item itself names one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from dsregress.errors import UsageError

_COMPARISONS = ("~=", "!=", "<=", ">=", "<", ">")
_REFRESH = "if it is newer than this harness, run nox -s update_pins"
_EXAMPLES = "write e.g. 0.16.4 or 0.16.* or '>=0.16,<0.17' or latest"


class UnknownVersion(UsageError):
    """No known release fits. The spec may be newer than the data, so an index is worth a look-up."""


def expand(package: str, spec: str, known: Sequence[str], *, unknown_hint: str = "") -> tuple[str, ...]:
    """Return the releases among ``known`` that ``spec`` matches (see the module for the grammar).

    Raise UsageError if the spec cannot be read, UnknownVersion if an item fits no known release; ``unknown_hint`` is the
    advice then.
    """
    found: dict[str, None] = {}
    for item in _items(package, spec):
        found.update(dict.fromkeys(_match(package, item, known, unknown_hint or _REFRESH)))
    return tuple(found)


def exact(package: str, spec: str) -> tuple[str, ...]:
    """Return the versions that ``spec`` names exactly. Raise UsageError."""
    found = []
    for item in _items(package, spec):
        with contextlib.suppress(InvalidVersion):
            found.append(str(Version(item.removeprefix("===").removeprefix("==").strip())))
    return tuple(found)


def only_exact(package: str, spec: str) -> bool:
    """Return True if ``spec`` names nothing but exact versions. Raise UsageError."""
    return len(exact(package, spec)) == len(_items(package, spec))


def _items(package: str, spec: str) -> list[str]:
    """Return the spec split at those commas that mean "or"."""
    items: list[str] = []
    for token in (part.strip() for part in spec.split(",")):
        if not token:
            raise UsageError(f"{spec!r} has an empty item", where=package, hint=_EXAMPLES)
        if "/" in token or token.startswith(".") or token.endswith((".whl", ".tar.gz")):
            hint = "releases are compared: put its wheel into a pip find-links folder and give its version"
            raise UsageError(f"{token!r} is a path or URL", where=package, hint=hint)
        can_be_narrowed = bool(items) and (items[-1].endswith(".*") or items[-1].startswith(_COMPARISONS))
        if token.startswith(_COMPARISONS) and can_be_narrowed:
            items[-1] = f"{items[-1]},{token}"
        else:
            items.append(token)
    return items


def _match(package: str, item: str, known: Sequence[str], hint: str) -> tuple[str, ...]:
    """Return the releases that one item matches, the oldest first. Raise UsageError, UnknownVersion."""
    ordered = sorted(known, key=Version)
    if item == "latest":
        final = [text for text in ordered if not Version(text).is_prerelease]
        if not final:
            raise UnknownVersion("no known releases", where=package, hint=hint)
        return (final[-1],)
    if not item.startswith(("==", *_COMPARISONS)) and (item.endswith(".*") or ".*," in item):
        item = f"=={item}"
    if item.startswith(_COMPARISONS) or "*" in item:
        return _releases_in_range(package, item, ordered, hint)
    try:
        version = Version(item.removeprefix("===").removeprefix("==").strip())
    except InvalidVersion:
        first, dots, last = item.partition("..")
        hint = f"write '>={first},<={last}'" if dots and first and last else _EXAMPLES
        raise UsageError(f"{item!r} is not a version", where=package, hint=hint) from None
    same = [text for text in ordered if Version(text) == version]
    if not same:
        near = _near(version, ordered)
        raise UnknownVersion(f"unknown release {version}", where=package, hint=f"{near}{hint}")
    return (same[0],)


def _releases_in_range(package: str, item: str, ordered: Sequence[str], hint: str) -> tuple[str, ...]:
    try:
        specifiers = SpecifierSet(item)
    except InvalidSpecifier:
        raise UsageError(f"{item!r} is not a range of versions", where=package, hint=_EXAMPLES) from None
    prereleases = bool(specifiers.prereleases)
    fitting = tuple(text for text in ordered if specifiers.contains(text, prereleases=prereleases))
    if not fitting and _runs_backwards(specifiers):
        raise UsageError(f"{item!r} runs backwards: no version fits it", where=package, hint=_EXAMPLES)
    if not fitting:
        span = f"known are {ordered[0]} to {ordered[-1]}; " if ordered else ""
        raise UnknownVersion(f"no known release fits {item!r}", where=package, hint=f"{span}{hint}")
    return fitting


def _runs_backwards(specifiers: SpecifierSet) -> bool:
    """Return True if a range begins after its end: ``>=0.17,<0.16``."""
    first = [Version(one.version) for one in specifiers if one.operator in (">", ">=")]
    last = [Version(one.version) for one in specifiers if one.operator in ("<", "<=")]
    return bool(first) and bool(last) and max(first) > min(last)


def _near(version: Version, ordered: Sequence[str]) -> str:
    """Return the known neighbours of an unknown version, in words."""
    below = [text for text in ordered if Version(text) < version][-2:]
    above = [text for text in ordered if Version(text) > version][:2]
    return f"nearest are {', '.join([*below, *above])}; " if below or above else ""
