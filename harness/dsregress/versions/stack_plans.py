"""Defaults, named stacks and varied axes -> the stacks to compare, baseline first.

The *primary* package is the one that the configured stack gives a list of versions for (DeepSpeed); the configured
baseline is a version of it.

- Nothing overridden: the primary package is the axis, its configured list the versions.
- Primary package overridden (``--deepspeed 0.16.*``): those versions, and the baseline in front of them.
- Other packages overridden (``--torch 2.4.*,2.5.*``): each is an axis, and several make the product. The primary package
  has the newest version of its configured list, as if torch were upgraded in an up-to-date stack. The baseline is the
  first version given (of a range: the oldest); where only one is given, the configured version of that package is the
  baseline, so that ``--transformers 5.0.0`` compares with what is pinned.
- With the primary package (``--deepspeed 0.16.4,0.16.8 --torch 2.6.0``), or several versions of another one
  (``--transformers 4.46.3,4.47.0 --accelerate 1.1.1``), a package with one version has that version in every stack, the
  baseline too, so that the stacks still differ in their axes alone: an old program needs several such. So has the
  primary package itself (``--deepspeed 0.18.9 --torch 2.6.0,2.7.0``): the configured baseline was not requested.
- So has a package that the configured stack lacks (``--with trl=0.24.0``). Without a version (``--with trl``) it is the
  newest that goes with all of them. Of several of its versions (``--with trl=0.23.0,0.24.0``) it is an axis itself.
- A configured package that is not named gives way where it does not run with an old release that is: see
  `dsregress.versions.partners`.
- A named stack (``--stack NAME``) replaces the configured versions; its primary package is compared with the baseline
  inside that same stack.
- An explicit baseline (``--baseline``) is a version of the axis that has it: ``--deepspeed 0.16.8 --peft 0.20.0,0.21.1
  --baseline 0.21.1`` holds DeepSpeed at 0.16.8. Where several axes have it, its package is written too: ``peft==0.21.1``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from packaging.utils import InvalidName, canonicalize_name

from dsregress.errors import HarnessError, Offline, UsageError, no_such
from dsregress.model import AXES, Environment, Stack, stack_label
from dsregress.versions import releases
from dsregress.versions.partners import fitting_partners
from dsregress.versions.releases import parsed_version
from dsregress.versions.specs import UnknownVersion, exact, expand, only_exact

Spec = str | tuple[str, ...]

#: The spec of a package that is added in the newest release that goes with the others.
NEWEST_THAT_FITS = ""

#: The releases of a package that indexes list; of ``name==version`` that one, be it yanked, or nothing.
ReleaseIndex = Callable[[str], tuple[str, ...]]


class StackPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks to compare, and their baseline."""

    stacks: tuple[Stack, ...]  #: baseline first
    baseline: Stack
    axes: tuple[str, ...]  #: the packages whose versions differ
    added: str = (
        ""  #: ``deepspeed 0.15.0``, the release that was not named and leads the others; empty if there is none
    )
    existing: tuple[Environment, ...] = ()  #: of those stacks that are existing interpreters
    notes: tuple[str, ...] = ()  #: lines for the user about what was taken in place of something


class ConfiguredStacks(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks of the configuration."""

    table: Mapping[str, Spec]  #: package -> its version, or the versions to compare
    baseline: str  #: version of the package that varies
    python: str
    named: Mapping[str, Mapping[str, str]] = {}  #: name -> package -> version
    as_of: str = (
        ""  #: the last day whose releases are known; of the configured ones, later ones give way to the newest then
    )


def plan_stacks(
    configuration: ConfiguredStacks,
    *,
    name: str | None = None,
    overrides: Mapping[str, str] | None = None,
    chosen: str | None = None,
    published: ReleaseIndex | None = None,
    locked: ReleaseIndex | None = None,
) -> StackPlan:
    """Return the stacks to compare.

    ``name`` is a named stack, ``overrides`` axis -> spec, ``chosen`` an explicit baseline. ``published`` looks up a
    package's releases when neither the committed ones suffice nor, if releases are named exactly, those that were
    ``locked`` before.

    Raise UsageError for an unknown stack, package or version.
    """
    table, baseline = configuration.table, configuration.baseline
    primary = next((package for package, spec in table.items() if not isinstance(spec, str)), AXES[-1])
    configured: dict[str, Spec] = {**table, **_named_stack(name, configuration.named)}
    overrides = {spelled_package(package, configured): spec for package, spec in (overrides or {}).items()}

    def versions(package: str, spec: Spec) -> tuple[str, ...]:
        specs = (spec,) if isinstance(spec, str) else spec
        return tuple(
            dict.fromkeys(v for one in specs for v in resolve(package, one, published, locked, configuration.as_of))
        )

    if configuration.as_of:
        specs = {package: (spec,) if isinstance(spec, str) else spec for package, spec in configured.items()}
        configured = {package: _there_then(package, each, versions) for package, each in specs.items()}
        baseline = _there_then(primary, (baseline,), versions)[0] if baseline else ""

    given = {package: versions(package, spec) for package, spec in overrides.items()}
    everywhere = _in_every_stack(given, configured, primary, chosen or "")
    varied = {package: found for package, found in given.items() if package not in everywhere}
    if not varied:
        expanded = {package: versions(package, spec) for package, spec in configured.items()}
        varied = {package: found for package, found in expanded.items() if len(found) > 1 or package == primary}
    led_by, led_from = _led_by(chosen, varied, everywhere, primary, published) if chosen else (primary, baseline)
    if chosen and led_by in everywhere:
        del everywhere[led_by]
        varied = {package: found for package, found in given.items() if package not in everywhere}

    def first(package: str, found: tuple[str, ...]) -> str:
        """Return the version of an axis that the baseline has."""
        if package == led_by and (chosen or baseline):
            return _one_release(package, led_from, published, locked, configuration.as_of)
        if len(found) == 1 and package in configured and package != primary:
            return versions(package, configured[package])[0]
        return found[0]

    leading = {package: first(package, found) for package, found in varied.items()}
    added = [
        f"{package} {version}" for package, version in leading.items() if version not in given.get(package, version)
    ]
    varied = {package: tuple(dict.fromkeys((leading[package], *found))) for package, found in varied.items()}
    fixed = {
        package: releases.sorted_versions(versions(package, spec))[-1]
        for package, spec in configured.items()
        if package not in varied
    } | everywhere
    points = list(itertools.product(*varied.values()))
    unnamed = (
        () if configuration.as_of else table.keys() - {*varied, *overrides, *_named_stack(name, configuration.named)}
    )
    fitting = fitting_partners(unnamed, [{**fixed, **dict(zip(varied, point, strict=True))} for point in points])
    stacks = tuple(
        Stack(
            python=configuration.python,
            versions={**fixed, **fitting, **dict(zip(varied, point, strict=True))},
            label=_stack_label(name, varied, point, {**everywhere, **fitting}),
        )
        for point in points
    )
    return StackPlan(
        stacks=stacks,
        baseline=stacks[0],
        axes=tuple(p for p, found in varied.items() if len(found) > 1),
        added="" if chosen else ", ".join(added),
    )


def _there_then(
    package: str, specs: Sequence[str], versions: Callable[[str, Spec], tuple[str, ...]]
) -> tuple[str, ...]:
    """Return what of configured specs existed on the last known day; if nothing did, the newest release of that day."""
    found: list[str] = []
    for spec in specs:
        with contextlib.suppress(UnknownVersion):
            found += versions(package, spec)
    return tuple(dict.fromkeys(found)) or versions(package, "latest")


def _in_every_stack(
    given: Mapping[str, tuple[str, ...]], configured: Collection[str], primary: str, chosen: str
) -> dict[str, str]:
    """Return the given packages that have one version in all stacks, with that version: next to a given axis, all of one
    version; else those that the configured stack lacks. ``chosen`` is an explicit baseline."""
    package, equals, _ = (part.strip() for part in chosen.partition("=="))
    compared = spelled_package(package, given) if equals and package else ""
    moves = any(one == compared or len(found) > 1 for one, found in given.items() if one != primary)
    beside_an_axis = moves or primary in given
    return {
        one: found[0]
        for one, found in given.items()
        if len(found) == 1 and (beside_an_axis or one not in configured) and (moves or one != primary)
    }


def spelled_package(package: str, stack: Collection[str]) -> str:
    """Return ``package`` as ``stack`` spells it (``Flash_Attn`` is ``flash-attn``), else normalised. Raise UsageError."""
    try:
        name = canonicalize_name(package, validate=True)
    except InvalidName:
        raise UsageError(f"{package!r} is not the name of a package", where="stack", hint="write e.g. trl") from None
    if name == "python":
        hint = 'set python = "3.12" in [tool.dsregress]'
        raise UsageError("python is not a package; all stacks share one interpreter", where="stack", hint=hint)
    return next((one for one in stack if canonicalize_name(one) == name), str(name))


def of_id(text: str) -> Stack | None:
    """Return the stack that an id spells; None if it counts its packages, or is no id."""
    python, *parts = text.split("-")
    versions: dict[str, str] = {}
    name = ""
    for part in parts:
        name += part
        split = next((at for at in _number_starts(name) if parsed_version(name[at:]) is not None), None)
        if split is None:
            name += "-"  # of a name with several words: "nvidia-ml-py12.0"
            continue
        versions[name[:split]] = name[split:]
        name = ""
    stack = Stack(python=python.removeprefix("py"), versions=versions)
    return stack if versions and not name and stack.id == text else None


def _number_starts(text: str) -> list[int]:
    """Return the positions at which a version may begin: at a digit behind a letter."""
    return [at for at in range(1, len(text)) if text[at].isdigit() and text[at - 1].isalpha()]


def _led_by(
    chosen: str,
    varied: Mapping[str, tuple[str, ...]],
    everywhere: Mapping[str, str],
    primary: str,
    published: ReleaseIndex | None,
) -> tuple[str, str]:
    """Return the axis that an explicit baseline is a version of, and that version. Raise UsageError if several are possible.

    ``everywhere`` are packages of one version: a baseline of another version makes such a package an axis.
    """
    package, equals, version = (part.strip() for part in chosen.partition("=="))
    if equals and package:
        package = spelled_package(package, (*varied, *everywhere))
        if package not in varied and package not in everywhere:
            hint = f"name a version of {' or '.join(varied)}"
            raise UsageError(f"{package} has one version in all stacks", where="--baseline", hint=hint)
        return package, version
    having = [package for package, found in varied.items() if chosen in found]
    having = having or [package for package in varied if chosen in releases.known_releases(package)]
    having = having or [package for package in everywhere if _is_release(package, chosen, published)]
    if len(having) > 1:
        hint = f"write {' or '.join(f'{package}=={chosen}' for package in having)}"
        raise UsageError(f"{chosen} may be a version of {' or '.join(having)}", where="--baseline", hint=hint)
    default = primary if primary in varied else next(iter(varied))
    return (having[0] if having else default), chosen


def _is_release(package: str, version: str, published: ReleaseIndex | None) -> bool:
    try:
        return len(resolve(package, version, published)) == 1
    except HarnessError:  # what is said of the axis says more
        return False


def resolve(
    package: str, spec: str, published: ReleaseIndex | None, locked: ReleaseIndex | None = None, as_of: str = ""
) -> tuple[str, ...]:
    """Expand a spec, as `expand` does, among the committed releases, and among the published ones if those do not suffice.
    Releases that are named exactly and that were ``locked`` before are known to exist. ``as_of`` a day, only those that
    ``published`` then lists are."""
    if as_of and published is not None:
        found = _with_named(package, spec, releases.sorted_versions(published(package)), published)
        return expand(package, spec, found, unknown_hint=f"the index had nothing else on {as_of} (--as-of)")
    known = releases.known_releases(package)
    try:
        return expand(package, spec, known)
    except UnknownVersion:
        if published is None:
            raise
    if locked is not None and only_exact(package, spec):
        with contextlib.suppress(UnknownVersion):
            return expand(package, spec, releases.sorted_versions((*known, *locked(package))))
    named = exact(package, spec)
    try:
        listed = releases.sorted_versions((*known, *published(package)))
    except Offline:  # an installer's cache cannot list releases, and may have those that are named
        if not only_exact(package, spec) or not all(published(f"{package}=={version}") for version in named):
            raise
        return expand(package, spec, releases.sorted_versions((*known, *named)))
    found = _with_named(package, spec, listed, published)
    hint = "" if known else f"`pip index versions {package}` lists those of your indexes"
    return expand(package, spec, found, unknown_hint=hint)


def _with_named(package: str, spec: str, listed: Sequence[str], published: ReleaseIndex) -> tuple[str, ...]:
    """Return the listed releases and those that a spec names: yanked ones are not listed, so that no range holds one."""
    unlisted = [version for version in exact(package, spec) if version not in listed]
    return releases.sorted_versions((*listed, *(found for one in unlisted for found in published(f"{package}=={one}"))))


def _one_release(
    package: str, version: str, published: ReleaseIndex | None, locked: ReleaseIndex | None, as_of: str
) -> str:
    found = resolve(package, version, published, locked, as_of)
    if len(found) != 1:
        raise UsageError(f"baseline {version!r} matches {len(found)} releases", where=package, hint="name exactly one")
    return found[0]


def _named_stack(name: str | None, named: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    if name is None:
        return {}
    if name not in named:
        raise no_such("stack", name, named, "[tool.dsregress.stacks]")
    return named[name]


def _stack_label(
    name: str | None,
    varied: Mapping[str, tuple[str, ...]],
    point: tuple[str, ...],
    everywhere: Mapping[str, str],
) -> str:
    """Return ``0.16.4``, ``torch 2.6.0, deepspeed 0.16.4``, ``NAME: 0.16.4`` or ``0.16.4 + trl 0.24.0``."""
    moving = [
        (package, version) for (package, found), version in zip(varied.items(), point, strict=True) if len(found) > 1
    ]
    if len(moving) == 1:
        text = moving[0][1]
    else:
        text = ", ".join(f"{package} {version}" for package, version in moving or zip(varied, point, strict=True))
    return stack_label(name or "", text, everywhere)
