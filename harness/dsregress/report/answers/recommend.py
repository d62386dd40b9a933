"""The answer to ``recommend``: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dsregress.advice.capacity import FitVerdict
from dsregress.advice.recommend import Advice, ReleaseAdvice
from dsregress.report.plain import plain
from dsregress.wording.quantities import listing, plural, quantity

#: Of ``--json``. History: 1 first.
SCHEMA = 1


def as_text(advice: Advice, commands: Sequence[str]) -> str:
    """Return the answer for a terminal, ending in a newline. ``commands`` measure what is missing."""
    lines = [plain(_heading(advice)), "", plain(_pick(advice))]
    for title, releases in (
        ("newer, not recommended:" if advice.pick else "why not:", advice.newer),
        ("older:", advice.older),
    ):
        if releases:
            width = max(len(release.name) for release in releases)
            lines += ["", title]
            for release in releases:
                first, *rest = [*_reasons(release), *(_ways(release) if releases is advice.newer else [])]
                lines.append(f"  {release.name.ljust(width)}  {plain(first)}")
                lines += [f"  {' ' * width}  {plain(line)}" for line in rest]
    if advice.missing:
        lines += ["", plain(f"no results for: {listing(list(advice.missing), 12)}")]
    if commands:
        lines += ["", "to measure what is missing:", *(f"  {plain(command)}" for command in commands)]
    return "\n".join(lines) + "\n"


def as_json(advice: Advice, commands: Sequence[str]) -> bytes:
    """Return everything as JSON, with a schema number."""
    question = advice.question
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": question.scenario,
        "variant": question.variant,
        "gpu": None if question.card is None else question.card.name,
        "overhead_bytes": question.overhead_bytes,
        "fail_on": list(question.fail_on),
        "package": advice.package,
        "baseline": advice.baseline,
        "pick": None if advice.pick is None else advice.pick.name,
        "releases": [
            {**msgspec.to_builtins(release), "is_clean": release.is_clean}
            for release in (*advice.newer, *([advice.pick] if advice.pick else []), *advice.older)
        ],
        "missing": list(advice.missing),
        "commands": list(commands),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _heading(advice: Advice) -> str:
    question = advice.question
    variant = "" if question.variant == "base" else f", {question.variant}"
    card = "" if question.card is None else f" on {question.card.name}"
    return f"{question.scenario}{variant}{card}: which release of {advice.package} to pin?"


def _pick(advice: Advice) -> str:
    measured = len(advice.newer) + len(advice.older) + (advice.pick is not None)
    among = plural(measured, "release") + " with results here"
    if advice.pick is None:
        return f"none of the {among} can be recommended"
    words = f"pin {advice.package} {advice.pick.name}: the newest of {among} without a known problem"
    return f"{words} ({_standing(advice.pick)})"


def _standing(release: ReleaseAdvice) -> str:
    measured = f"measured in {' and '.join(release.devices)}"
    return f"{measured}; {_room(release.room)}" if release.room is not None else measured


def _room(room: FitVerdict) -> str:
    if room.fails_in:
        return f"out of memory in {room.fails_in}: needs {quantity(room.peak_bytes, 'bytes')}"
    return f"fits, {quantity(room.headroom_bytes, 'bytes')} to spare"


def _reasons(release: ReleaseAdvice) -> list[str]:
    """Return the reasons not to recommend a release, one line each; for a clean one, a line that says so."""
    if release.is_clean:
        return [f"no known problem ({_standing(release)})"]
    lines = list(dict.fromkeys(found.message for found in release.findings))  # one workload may have several names
    if release.room is not None and release.room.fails_in:
        lines.append(_room(release.room))
    if release.unknown:
        lines.append(f"no verdict: {release.unknown}")
    return lines


def _ways(release: ReleaseAdvice) -> list[str]:
    """Return the variants with which the release can be used anyway, one line each."""
    if release.unknown:
        return []
    if not release.ways:
        return ["to use it anyway: no variant that helps was measured"]
    lines = []
    for way in release.ways:
        about = f"measured in {' and '.join(way.devices)}" + (f"; {_room(way.room)}" if way.room else "")
        but = "; ".join(dict.fromkeys(found.message for found in way.findings))
        lines.append(f"to use it anyway: set {way.variant} ({f'but {but};' if but else 'no finding,'} {about})")
    return lines
