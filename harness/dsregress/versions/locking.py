"""A stack -> the same stack with every package pinned.

Stacks that are compared must differ in the version under test alone. So a stack is resolved with the committed base lock
as preferences: the base's pins stay unless the stack's own requirements forbid it; `drift` reports what they forbade.
Locks are universal: one lock serves every Python that its packages support, from 3.10 on, and both kinds of machine. They
hold neither index URLs nor builds of a version (``+cpu``): the machine decides which build is installed
(``dsregress.envs.recipe``).

Where a package that was added to a stack demands another release of what the stack pins (OpenRLHF pins one DeepSpeed), the
stack's pins hold, as they do for who installs that release afterwards with pip, which warns of it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dsregress.errors import EnvironmentUnavailable
from dsregress.model import AXES, Failed, LockedStack, NotInstalled, Stack
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.scenario import ABSENT
from dsregress.system import clock
from dsregress.system.files import write_atomically
from dsregress.system.obstacles import obstacle_error
from dsregress.system.scratch_folders import scratch_folder
from dsregress.versions import undeclared
from dsregress.versions.releases import parsed_version

_LOG = logging.getLogger(__package__)

FOLDER = Path(__file__).with_name("locks")
BASE = FOLDER / "base.txt"

#: The Pythons that a lock may begin with: the first of them that the stack's packages support. transformers 5.24 begins
#: with 3.11.
OLDEST_PYTHONS = ("3.10", "3.11")

#: Packages of each environment besides the stack: the probe times rounds with pytest-benchmark.
TOOLS = ("pytest>=8", "pytest-benchmark>=5")

#: Packages that old DeepSpeed and torch's extension builder use without always requiring them: setuptools with pkg_resources
#: (gone in 82, deprecated from 81), which uv environments lack, and a compiler driver.
TORCH_TOOLS = ("setuptools<81", "wheel", "ninja", "numpy", "packaging")

#: Packages that only some DeepSpeed releases require. All stacks get all of them, so that they differ in DeepSpeed alone.
SOMETIMES_REQUIRED = ("einops", "hjson", "msgpack", "nvidia-ml-py", "psutil", "py-cpuinfo", "pydantic", "tqdm")

#: How often a newer release than was found is asked for.
_MOST_NEWER = 4

#: Resolutions that run together: each waits for the index most of its time.
_AT_ONCE = 6

#: Packages without wheels, whose build needs torch and a compiler for GPUs. A program runs without them, or by stand-ins.
_BUILT_FOR_A_GPU = {"flash-attn", "causal-conv1d", "mamba-ssm", "grouped-gemm"}

#: uv's words for requirements that exclude each other for an older Python alone, or for want of a release of torch that
#: has another name as a build.
_OF_A_PYTHON_OR_BUILD = re.compile(
    r"python_full_version (?:==|<) '|does not satisfy Python|only supports >=|no versions? of torch"
)

#: Resolves a file of requirements for a Python into an output file that may hold preferences, with a file of requirements
#: that hold whatever else is required; None means success.
Compile = Callable[[Path, Path, str, Path | None], NotInstalled | None]


def wanted(stack: Stack, tools: Sequence[str] = TOOLS) -> tuple[str, ...]:
    """Return the requirements that a stack's lock is resolved from.

    torch is pinned with ``===``, as ``==2.13.0`` also takes ``2.13.0+cpu``, whose dependencies are not those of others. A
    package to be left out has a marker that never holds.
    """
    pins = (_pin(name, version) for name, version in stack.versions.items())
    extras = (
        *(TORCH_TOOLS if "torch" in stack.versions else ()),
        *(SOMETIMES_REQUIRED if "deepspeed" in stack.versions else ()),
    )
    return tuple(sorted((*pins, *tools, *extras)))


def known_lock(stack: Stack, *, cache: Path, tools: Sequence[str] = TOOLS, as_of: str = "") -> LockedStack | None:
    """Return the stack with everything pinned, if it was resolved before: from the committed locks, else from ``cache``. One
    that was resolved ``as_of`` a day is in ``cache`` alone."""
    requirements = wanted(stack, tools)
    committed = () if as_of else (FOLDER / file_name(stack),)
    for file in (*committed, _cached(stack, cache, requirements, as_of)):
        pins = read_pins(file, requirements)
        if pins is not None:
            _LOG.debug("%s: locked by %s, %d packages", stack.id, file, len(pins))
            return _locked(stack, pins)
    return None


def lock_stack(
    stack: Stack, *, cache: Path, compile: Compile, tools: Sequence[str] = TOOLS, as_of: str = ""
) -> LockedStack | NotInstalled:
    """Return the stack with everything pinned: from the committed locks, else from ``cache``, else resolved and kept there.
    ``as_of`` is the day to which ``compile`` limits what is known, and from which no committed pin is.

    Return Failed if no set of releases satisfies the stack's requirements: that is a result of the stack.
    """
    if (there := known_lock(stack, cache=cache, tools=tools, as_of=as_of)) is not None:
        return there
    requirements = wanted(stack, tools)
    base, cached = "" if as_of else base_pins(), _cached(stack, cache, requirements, as_of)
    left_out = [_pin(name, version) for name, version in stack.versions.items() if version == ABSENT]
    began = time.monotonic()
    resolved = resolve(requirements, base=base, compile=compile, python=stack.python, overrides=left_out)
    if isinstance(resolved, Failed) and (own := _without_added(stack)) is not None:
        alone = resolve(wanted(own, tools), base=base, compile=compile, python=stack.python)
        if not isinstance(alone, NotInstalled):  # else it is the stack itself that cannot be had
            pins = [*left_out, *(_pin(name, version) for name, version in own.versions.items())]
            resolved = resolve(requirements, base=base, compile=compile, python=stack.python, overrides=pins)
            if isinstance(resolved, Failed):  # it excludes what the stack's own require
                pins = [*left_out, *alone]
                resolved = resolve(requirements, base=base, compile=compile, python=stack.python, overrides=pins)
    if not isinstance(resolved, NotInstalled) and (kernels := _kernels_in(resolved, stack)):
        overrides = [*left_out, *(_pin(name, ABSENT) for name in kernels)]
        resolved = resolve(requirements, base=base, compile=compile, python=stack.python, overrides=overrides)
    took_s = time.monotonic() - began
    if isinstance(resolved, NotInstalled):
        _LOG.debug("%s: not resolved, %.1f s: %s", stack.id, took_s, resolved.signature)
        return resolved
    _LOG.debug("%s: resolved in %.1f s, %d packages, kept in %s", stack.id, took_s, len(resolved), cached)
    try:
        write_lock(cached, requirements, resolved)
    except OSError as error:
        hint = "free space or set DSREGRESS_ENVIRONMENTS"
        raise obstacle_error(EnvironmentUnavailable, "cannot write a lock", error, where=cached, hint=hint) from None
    return _locked(stack, resolved)


def newest_that_fit(
    stack: Stack,
    limits: Mapping[str, str],
    *,
    cache: Path,
    compile: Compile,
    tools: Sequence[str] = TOOLS,
    as_of: str = "",
    held: bool = False,
) -> dict[str, str] | NotInstalled:
    """Return the newest release of each package that is compatible with the stack's own and within its limit (``>=0.9,<1``;
    empty for any), by name. ``held``: the stack's own stay, whatever the others require of them.

    What was found is kept in ``cache`` for the rest of the day: a run that is cut off goes on with the same releases, and
    `locked_releases` knows them without an index.
    """
    requirements = tuple(sorted((*wanted(stack, tools), *(f"{name}{limit}" for name, limit in limits.items()))))
    overrides = _held_pins(stack, tools, cache=cache, compile=compile, as_of=as_of) if held else []
    kept = cache / _name_of_newest((*requirements, *overrides), as_of)
    pins = read_pins(kept, requirements)
    if pins is None:
        # Without the base's pins: to keep those, an old release would be chosen that limits nothing. For the stack's own
        # Python: the lock that is made with what is found begins with an older one where that has it, too.
        def within(limits: Mapping[str, str]) -> tuple[str, ...] | NotInstalled:
            asked = [*wanted(stack, tools), *(f"{name}{limit}" for name, limit in limits.items())]
            return resolve(sorted(asked), base="", compile=compile, python=stack.python, overrides=overrides, older=())

        resolved = within(limits)
        if isinstance(resolved, NotInstalled):
            return resolved
        pins = _with_newer(resolved, stack, limits, within)
        with contextlib.suppress(OSError):  # it is found again
            write_lock(kept, requirements, pins)
    versions = _effective(_locked(stack, pins))
    return {package: versions[canonicalize_name(package)] for package in limits}


def _with_newer(
    pins: tuple[str, ...],
    stack: Stack,
    limits: Mapping[str, str],
    within: Callable[[Mapping[str, str]], tuple[str, ...] | NotInstalled],
) -> tuple[str, ...]:
    """Return the pins with newer releases of the added packages, if any go with the stack ``within`` their limits. A
    resolver that decides on a package before it knows the bounds of those that require it takes an old one without bounds:
    datasets 2.14.4 beside an fsspec that all later ones exclude."""
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="newer") as pool:  # each takes seconds
        above = {name: raised for name in limits if (raised := _above(name, pins, stack, limits)) is not None}
        found = dict(zip(above, pool.map(within, above.values()), strict=True))
    for name in [name for name, resolved in found.items() if not isinstance(resolved, NotInstalled)]:
        for _ in range(_MOST_NEWER):
            raised = _above(name, pins, stack, limits)
            resolved = found[name] if raised == above[name] else within(raised) if raised is not None else None
            if resolved is None or isinstance(resolved, NotInstalled):
                break
            if not _prereleases(_effective(_locked(stack, resolved))) <= _prereleases(_effective(_locked(stack, pins))):
                break  # above the newest release there are release candidates alone
            pins, limits = resolved, raised or limits
    return pins


def _above(name: str, pins: tuple[str, ...], stack: Stack, limits: Mapping[str, str]) -> dict[str, str] | None:
    """Return the limits with one that excludes the release that the pins have of a package; None if its newest is named."""
    found = parsed_version(_effective(_locked(stack, pins))[canonicalize_name(name)])
    if found is None or found.local or "=" in limits[name].replace(">=", ""):
        return None
    return {**limits, name: f"{limits[name]}{',' if limits[name] else ''}>{found}"}


def _prereleases(versions: Mapping[str, str]) -> set[str]:
    parsed = {name: parsed_version(version) for name, version in versions.items()}
    return {name for name, found in parsed.items() if found is not None and found.is_prerelease}


def _held_pins(stack: Stack, tools: Sequence[str], *, cache: Path, compile: Compile, as_of: str) -> tuple[str, ...]:
    """Return the pins of all that a stack has; of its own packages alone if it cannot be locked."""
    locked = lock_stack(stack, cache=cache, compile=compile, tools=tools, as_of=as_of)
    if isinstance(locked, NotInstalled):
        return tuple(_pin(name, version) for name, version in stack.versions.items())
    return locked.requirements


def releases_with_extras(
    stack: Stack, requirements: Sequence[str], *, compile: Compile, tools: Sequence[str] = TOOLS
) -> dict[str, str] | NotInstalled:
    """Return, by name, the releases of the packages of these requirements (``it[extra]>=2``), and of what their extras add
    to the stack."""
    parsed = [Requirement(text) for text in requirements]
    resolved = []
    for texts in ([f"{one.name}{one.specifier}" for one in parsed], requirements):
        pins = resolve((*wanted(stack, tools), *texts), base="", compile=compile, python=stack.python)
        if isinstance(pins, NotInstalled):
            return pins
        resolved.append(_effective(_locked(stack, pins)))
    without, whole = resolved
    named = {canonicalize_name(one.name) for one in parsed}
    return {name: version for name, version in whole.items() if name in named or name not in without}


def lock_all(
    stacks: Sequence[Stack], *, cache: Path, compile: Compile, tools: Sequence[str] = TOOLS, as_of: str = ""
) -> tuple[LockedStack | NotInstalled, ...]:
    """Lock each stack as `lock` does, and return them in the order given; four at once, since a resolution mostly waits for
    the network."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=4, thread_name_prefix="lock") as pool:
        return tuple(
            pool.map(lambda stack: lock_stack(stack, cache=cache, compile=compile, tools=tools, as_of=as_of), stacks)
        )


def _kernels_in(pins: Sequence[str], stack: Stack) -> list[str]:
    """Return the pinned packages of `_BUILT_FOR_A_GPU` that the stack does not name: another package requires them."""
    names = {str(canonicalize_name(Requirement(pin).name)) for pin in pins}
    return sorted(names & _BUILT_FOR_A_GPU - {*map(canonicalize_name, stack.versions)})


def _pin(name: str, version: str) -> str:
    if version == ABSENT:
        return f"{name}; sys_platform == 'none'"
    return f"{name}{'===' if name == 'torch' else '=='}{version}"


def _without_added(stack: Stack) -> Stack | None:
    """Return the stack with the trainers' packages alone; None if it has no others."""
    own = {name: version for name, version in stack.versions.items() if name in AXES}
    if not own or own == stack.versions:
        return None
    return msgspec.structs.replace(stack, versions=own)


def resolve(
    requirements: Sequence[str],
    *,
    base: str,
    compile: Compile,
    python: str,
    overrides: Sequence[str] = (),
    older: Sequence[str] = OLDEST_PYTHONS,
) -> tuple[str, ...] | NotInstalled:
    """Return pins for ``requirements``, as near to the pins in ``base`` as they allow. ``overrides`` hold whatever else is
    required. They are for each Python from the first of the ``older`` ones on that they allow, else from ``python`` on.

    Undeclared needs of releases are met as far as the requirements allow it (`dsregress.versions.undeclared`).
    """
    lines = tuple(requirements)
    pins = _resolve(lines, base=base, compile=compile, python=python, overrides=overrides, older=older)
    while not isinstance(pins, NotInstalled) and (more := set(undeclared.broken(pins)) - set(lines)):
        lines = (*lines, *sorted(more))
        bounded = _resolve(lines, base=base, compile=compile, python=python, overrides=overrides, older=older)
        if isinstance(bounded, NotInstalled):
            break  # the requirements themselves want it otherwise
        pins = bounded
    return pins


def _resolve(
    requirements: Sequence[str],
    *,
    base: str,
    compile: Compile,
    python: str,
    overrides: Sequence[str],
    older: Sequence[str],
) -> tuple[str, ...] | NotInstalled:
    """Resolve for every Python from the first of the ``older`` ones on that the stack supports; else from its own Python on;
    and last with builds of torch allowed, for users whose only torch is such a build."""
    builds = tuple(line.replace("===", "==") for line in requirements)
    failure: NotInstalled | None = None
    tried = dict.fromkeys((*(one for one in older if Version(one) <= Version(python)), python))
    for lines, oldest in (*((requirements, one) for one in tried), (builds, python)):
        with scratch_folder() as folder:
            source, output = folder / "stack.in", folder / "stack.txt"
            held = folder / "overrides.txt" if overrides else None
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            output.write_text(base, encoding="utf-8")
            if held is not None:
                held.write_text("\n".join(overrides) + "\n", encoding="utf-8")
            failed = compile(source, output, oldest, held)
            if failed is None:
                return _pins_in_text(output.read_text(encoding="utf-8"))
        failure = failure or failed
        if _fails_alike(failed):
            break
    assert failure is not None
    return failure


def _fails_alike(failed: NotInstalled) -> bool:
    """Return True if uv found requirements that exclude each other, whatever the Python and the build of torch."""
    text = " ".join(failed.detail.split()) if isinstance(failed, Failed) else ""
    return "No solution found" in text and not _OF_A_PYTHON_OR_BUILD.search(text)


def drift(a: LockedStack, b: LockedStack, axes: Collection[str]) -> tuple[str, ...]:
    """Return the differences of two locks besides ``axes``, on this kind of machine: ``tokenizers 0.21.4 -> 0.22.2``.

    The CUDA packages that torch requires in exact versions are torch's own parts, and not named if torch is an axis.
    """
    before, after = _effective(a), _effective(b)
    ignored = {canonicalize_name(axis) for axis in axes}
    lines = []
    for name in sorted(before.keys() | after.keys()):
        part_of_torch = "torch" in ignored and re.match(r"nvidia-|cuda-|triton$", name)
        if name not in ignored and not part_of_torch and before.get(name) != after.get(name):
            lines.append(f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}")
    return tuple(lines)


def file_name(stack: Stack) -> str:
    """Return the name of the stack's lock: its id without the Python, as one lock serves them all."""
    return f"{stack.id.removeprefix(f'py{stack.python}-')}.txt"


def locked_releases(cache: Path, package: str) -> tuple[str, ...]:
    """Return the releases of a package that the locks in ``cache`` pin."""
    pinned = re.compile(rf"^{re.escape(canonicalize_name(package))}===?([^\s;+]+)", re.MULTILINE)
    return tuple({version for file in cache.glob("*.txt") for version in pinned.findall(_text_of_file(file))})


def read_pins(file: Path, requirements: Sequence[str]) -> tuple[str, ...] | None:
    """Return the pins in a lock file; None if it is missing or was resolved from other requirements than these."""
    text = _text_of_file(file)
    return _pins_in_text(text) if text.startswith(_lock_header(requirements)) else None


def _text_of_file(file: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return read_regular(file, MOST_FILE_BYTES, follow_links=True).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def write_lock(file: Path, requirements: Sequence[str], pins: Sequence[str]) -> None:
    """Write a lock file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, (_lock_header(requirements) + "\n".join(pins) + "\n").encode())


def base_pins() -> str:
    """Return the text of the committed base lock; empty if it does not exist."""
    return BASE.read_text(encoding="utf-8") if BASE.exists() else ""


def _cached(stack: Stack, cache: Path, requirements: Sequence[str], as_of: str) -> Path:
    known = f"as of {as_of}" if as_of else base_pins()
    decides = (*requirements, *OLDEST_PYTHONS, known, *map(str, undeclared.BOUNDS))
    return cache / f"{file_name(stack).removesuffix('.txt')}-{_key(decides)}.txt"


def _name_of_newest(requirements: Sequence[str], as_of: str) -> str:
    decides = (*requirements, *OLDEST_PYTHONS, *map(str, undeclared.BOUNDS), as_of or clock.now().date().isoformat())
    return f"newest-{_key(decides)}.txt"


def _key(decides: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(decides).encode()).hexdigest()[:12]


def _lock_header(requirements: Sequence[str]) -> str:
    return f"# resolved from: {' '.join(requirements)}\n"


def _pins_in_text(text: str) -> tuple[str, ...]:
    lines = {line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#", "-", " "))}
    return tuple(sorted({re.sub(r"^(torch==[^+;\s]+)\+[^;\s]+", r"\1", line) for line in lines}))


def _locked(stack: Stack, pins: tuple[str, ...]) -> LockedStack:
    return LockedStack(stack=stack, requirements=pins, sha256=hashlib.sha256("\n".join(pins).encode()).hexdigest())


def _effective(locked: LockedStack) -> dict[str, str]:
    """Return package -> version as this machine with the stack's Python would install it."""
    environment = {"python_version": locked.stack.python, "python_full_version": f"{locked.stack.python}.0"}
    found: dict[str, str] = {}
    for line in locked.requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate(dict(environment)):
            found[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return found
