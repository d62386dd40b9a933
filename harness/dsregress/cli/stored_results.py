"""Stored results, and their stacks by the id or version that the user writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from packaging.version import Version

from dsregress.cli import options
from dsregress.cli.lines import print_note
from dsregress.cli.output import note_problems
from dsregress.config.settings import Settings
from dsregress.errors import UsageError, meant
from dsregress.model import ADDED, Cell, Stack
from dsregress.run.pace import least_rounds
from dsregress.run.published import Published
from dsregress.store import Store
from dsregress.versions.releases import parsed_version
from dsregress.wording import commands
from dsregress.wording.quantities import enumeration


def measuring_settings(settings: Settings, store: Store) -> Settings:
    """Return the settings for measuring cells that ``store``, the one that they name, lacks. Results are stored in it too,
    or in the configured folder if it is a bundle, which is only read. Raise UsageError."""
    if not store.is_bundle:
        return settings
    return msgspec.structs.replace(settings, results=options.load_settings().results)


def published_results(
    results: str | None, settings: Settings, scenario: str, *, fresh: bool
) -> tuple[Published | None, Settings]:
    """Return the results that ``--results`` names, which answer whichever probe measured them; and the settings for
    measuring missing ones, from `measuring_settings`.

    The results are None if the option was not given, or if everything is measured afresh. Raise UsageError, ResultsError.
    """
    if results is None:
        return None, settings
    store = Store(settings.results)
    measuring = measuring_settings(settings, store)
    if fresh:
        return None, measuring
    published = Published(store, scenario, least_rounds(settings))
    note_problems(published.problems)
    return published, measuring


def stored_stacks(
    published: Published | None, stacks: Sequence[Stack], cells_of: Callable[[Stack], Iterable[Cell]], package: str
) -> tuple[Stack, ...]:
    """Return the configured stacks that a bundle has, or else its own, if a bundle answers and no release was named; else
    all of them."""
    if published is None or not published.is_bundle:
        return tuple(stacks)
    known = published.stacks()
    if known and not any(stack.id in known for stack in stacks):
        own = [known[name] for name in series(most_common([*known], package), package, [*known])]
        own.sort(key=lambda stack: Version(stack.versions.get(package, "0")))
        found = published.answerable(own, cells_of)
    else:
        found = published.answerable(stacks, cells_of)
    if found != tuple(stacks):
        names = ", ".join(stack.versions.get(package, stack.id) for stack in found)
        others = sorted({one for stack in found for one in _other_pins(stack, stacks, package)})
        beside = f", with {enumeration(others)}" if others else ""
        print_note(f"the bundle has {package} {names}{beside}; name other releases to measure them")
    return found


def _other_pins(stack: Stack, stacks: Sequence[Stack], package: str) -> list[str]:
    """Return the packages of a stack, with their versions, that none of ``stacks`` has."""
    configured = {(name, version) for one in stacks for name, version in one.versions.items()}
    return [
        f"{name} {each}" for name, each in stack.versions.items() if name != package and (name, each) not in configured
    ]


def stack_id(text: str, package: str, known: Sequence[str], *, like: str = "") -> str:
    """Return the stored stack that ``text`` matches: an id, a version of ``package`` or else of another, or
    ``NAME==VERSION``; with the packages added to the stack, ``0.16.4 + trl 0.24.0``.

    Of several with that version, it is the one that otherwise is the stack ``like``, or without ``like`` the one to which
    nothing else was added. Raise UsageError.
    """
    if text in known:
        return text
    version, *added = text.split(ADDED)
    having = [name for name in known if all(_stack_has_version(name, *one.rpartition(" ")[::2]) for one in added)]
    return _stack_id(version, package, having, like=like, written=text)


def _stack_id(text: str, package: str, known: Sequence[str], *, like: str, written: str) -> str:
    """Do the same as `stack_id` for a version. ``written`` is the user's whole text."""
    name, equals, version = (part.strip() for part in text.partition("=="))
    if equals and name:
        package, text = name, version
    found = [name for name in known if _stack_has_version(name, package, text)]
    if len(found) > 1 and like:
        rest = _stack_without(like, package)
        found = [name for name in found if _stack_without(name, package) == rest] or found
    if len(found) > 1:
        least = min(map(_packages, found))
        found = [name for name in found if _packages(name) == least]
    if len(found) == 1:
        return found[0]
    others = [] if equals or found else _packages_with(text, known)
    if len(others) == 1:
        return _stack_id(f"{others[0]}=={text}", package, known, like=like, written=written)
    if others:
        hint = f"write {' or '.join(f'{other}=={text}' for other in others)}"
        raise UsageError(f"{text} may be a version of {' or '.join(others)}", where="results", hint=hint)
    if found:
        raise UsageError(
            f"{written} matches {len(found)} stacks", where="results", hint=f"name one: {', '.join(found)}"
        )
    hint = (
        meant(text, sorted({name.rpartition(f"-{package}")[2] for name in known}))
        or f"`{commands.STACKS}` lists what is stored; `{commands.regress()}` measures more"
    )
    raise UsageError(f"no results for {text if equals else written}", where="results", hint=hint)


def stack_ids(texts: Sequence[str], package: str, known: Sequence[str]) -> list[str]:
    """Return the stored stacks to compare with one another, each by `stack_id`. The first text that is more than a version
    determines the other packages of all; if none is, the first text does. Raise UsageError."""
    telling = next((text for text in texts if text in known or ADDED in text), texts[0])
    like = stack_id(telling, package, known)
    return [like if text == telling else stack_id(text, package, known, like=like) for text in texts]


def most_common(known: Sequence[str], package: str) -> str:
    """Return the stack whose other packages most stored stacks share: the series that a report is about."""
    rests = Counter(_stack_without(name, package) for name in known)
    rest = rests.most_common(1)[0][0]
    return next(name for name in known if _stack_without(name, package) == rest)


def series(like: str, package: str, known: Sequence[str]) -> list[str]:
    """Return the stacks that differ from the stack ``like`` in nothing but ``package``."""
    return [name for name in known if _stack_without(name, package) == _stack_without(like, package)]


def longest_series(known: Sequence[str], package: str) -> tuple[str, list[str]]:
    """Return the package of which most releases are compared, ``package`` if others have as many, and their stacks."""
    packages = dict.fromkeys((package, *(name for one in known for name, _ in _stack_pins(one))))
    return max(
        ((each, series(most_common(known, each), each, known)) for each in packages), key=lambda one: len(one[1])
    )


def baseline_stack(given: str | None, configured: str, package: str, known: Sequence[str], *, like: str) -> str:
    """Return the id of the stack that the others are compared with: of those ``known``, as `stack_id` does. If none is
    ``given``, results without the configured one have one of their own, the oldest of the longest series. Raise
    UsageError."""
    try:
        return stack_id(given or configured, package, known, like=like)
    except UsageError:
        if given:
            raise
    _, longest = longest_series(known, package)
    chosen = min(longest, key=lambda one: [release for _, release in _stack_pins(one)])
    print_note(
        f"there are no results for {configured}, the configured baseline; comparing with {chosen}; use --baseline to choose"
    )
    return chosen


def release_of_stack(name: str, package: str) -> str:
    """Return a stack's release of a package, by its id; empty if it has none."""
    return next((text for one, text in _stack_texts(name) if one == package), "")


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """Stored stacks from an installed release to another: ids."""

    installed: str
    target: str
    stacks: tuple[str, ...]  #: these two, and all that are as new as the older of them


def way(package: str, versions: Mapping[str, str], target: str, known: Sequence[str]) -> Way | None:
    """Return the stored stacks that lead from ``versions[package]`` to ``target`` and otherwise agree most with
    ``versions``; None if no series has both."""
    found = []
    for name in known:
        if not _stack_has_version(name, package, versions[package]):
            continue
        mine = series(name, package, known)
        goal = next((one for one in mine if _stack_has_version(one, package, target)), None)
        if goal is not None:
            agreeing = sum(_stack_has_version(name, other, version) for other, version in versions.items())
            found.append((agreeing, len(mine), name, goal, mine))
    if not found:
        return None
    _, _, name, goal, mine = max(found)
    texts = {one: match[1] for one in mine if (match := re.search(rf"-{re.escape(package)}(\d[^-]*)", one))}
    releases = {one: version for one, text in texts.items() if (version := parsed_version(text)) is not None}
    oldest = min(releases[name], releases[goal])
    newer = (one for one in mine if one in releases and releases[one] >= oldest)
    return Way(installed=name, target=goal, stacks=tuple(newer))


def _stack_has_version(name: str, package: str, version: str) -> bool:
    """Return True if a stack, by its id, has this version."""
    return f"-{package}{version}-" in f"{name}-"


def _packages_with(version: str, known: Sequence[str]) -> list[str]:
    """Return the packages that have this version in a stored stack, by the stacks' ids."""
    packages = {found for name in known for found in re.findall(rf"-([^\W\d][\w-]*?){re.escape(version)}(?=-|$)", name)}
    return sorted(packages)


def _packages(name: str) -> int:
    """Return the number of packages of a stack, by its id."""
    return len(re.findall(r"-[^\W\d][^-]*", name))


def _stack_pins(name: str) -> list[tuple[str, Version]]:
    """Return a stack's packages and their versions, by its id."""
    found = _stack_texts(name)
    return [(package, version) for package, text in found if (version := parsed_version(text)) is not None]


def _stack_texts(name: str) -> list[tuple[str, str]]:
    return re.findall(r"-([^\W\d][\w-]*?)(\d[^-]*)(?=-|$)", name)


def _stack_without(name: str, package: str) -> str:
    """Return a stack's id without one package: ``torch2.13.0`` is one, ``torchvision0.28.0`` is another."""
    return re.sub(rf"-{re.escape(package)}(?=\d)[^-]*", "", name)
