"""The answer to ``bisect``: for a terminal, and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.bisect.halving import Transition
from dsregress.bisect.result import Bisection, Probe, SearchResult
from dsregress.model import Verdict
from dsregress.report.plain_text import plain
from dsregress.report.stored_answers import BISECTION_SCHEMA
from dsregress.wording.quantities import quantity

#: Files that are listed; the rest is counted.
_MOST_FILES = 12

_SINGULAR = {"releases": "release", "commits": "commit"}


def bisection_text(bisection: Bisection) -> str:
    """Return the answer for a terminal, ending in a newline."""
    blocks = [block for course in bisection.courses for block in _course(course)]
    head = f"{bisection.workload}, good {bisection.good}, bad {bisection.bad}"
    lines = [head, *([f"The question was chosen: {bisection.reason}"] if bisection.reason else [])]
    return "\n\n".join([*blocks, "\n".join(plain(line) for line in lines)]) + "\n"


def bisection_json(bisection: Bisection, exit_code: int) -> bytes:
    """Return everything as JSON, with a schema number."""
    content: dict[str, Any] = {
        "schema": BISECTION_SCHEMA,
        "exit_code": exit_code,
        "decided": bisection.is_decided,
        "workload": bisection.workload,
        "good": bisection.good,
        "bad": bisection.bad,
        "reason": bisection.reason,
        "courses": [_course_json(course) for course in bisection.courses],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def sentences(course: SearchResult) -> list[str]:
    """Return the result of one search, one sentence per change; one sentence if it found none."""
    if course.every:
        return [_sentence(course, change) for change in course.changes] or [_nothing(course)]
    wanted = [change for change in (course.found, course.undone) if change]
    return [_sentence(course, change) for change in wanted] or [_nothing(course)]


def _sentence(course: SearchResult, change: Transition) -> str:
    word = "bad" if change.to is Verdict.BAD else "good"
    unit = _SINGULAR[course.kind] + " again" * _is_again(course, change)
    before, after = course.probes[change.before], course.probes[change.after]
    if change.is_exact:
        return f"{course.package} {after.name} is the first {word} {unit}: {course.title}"
    between = course.probes[change.before + 1 : change.after]
    unknown = [probe.name for probe in between if probe.answer is Verdict.UNKNOWN]
    why = f"no answer from {', '.join(unknown[:8])}" + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
    return (
        f"{course.package}: the first {word} {unit} is after {before.name} and not after {after.name}, and cannot be "
        f"narrowed down ({why}): {course.title}"
    )


def _is_again(course: SearchResult, change: Transition) -> bool:
    """Return True if a change is back to good, as it was before the fault began."""
    if change.to is Verdict.BAD:
        return False
    return any(probe.answer is Verdict.GOOD for probe in course.probes[: change.before])


def _nothing(course: SearchResult) -> str:
    word = "bad" if course.to is Verdict.BAD else "good"
    first, last = course.probes[0].name, course.probes[-1].name
    return f"{course.package}: no {_SINGULAR[course.kind]} from {first} to {last} turns {word}: {course.title}"


def _course(course: SearchResult) -> list[str]:
    blocks = ["\n".join(plain(line) for line in sentences(course)), "\n".join(_version_table(course))]
    answered = sum(probe.answer is not None for probe in course.probes)
    stored = sum(probe.stored for probe in course.probes)
    lines = [
        f"{answered} of {len(course.probes)} {course.kind} answered, {stored} by stored results; "
        f"{course.runs} runs, {course.took_s:.0f} s",
        *(f"Note: {note}" for note in course.notes),
    ]
    blocks.append("\n".join(plain(line) for line in lines))
    if course.met:
        blocks.append("\n".join(["Met on the way", *(f"  {plain(line)}" for line in course.met)]))
    if course.sites:
        blocks.append("\n".join(["Who holds the difference", *(f"  {plain(line)}" for line in course.sites)]))
    if course.files:
        shown = [f"  {plain(line)}" for line in course.files[:_MOST_FILES]]
        more = len(course.files) - len(shown)
        blocks.append(
            "\n".join(
                [f"Changed upstream, {_span(course)}", *shown, *([f"  and {more} more files"] if more > 0 else [])]
            )
        )
    if course.patch:
        lines = ["The change itself", *(f"  {_indented(line)}".rstrip() for line in course.patch)]
        blocks.append("\n".join(lines).rstrip())
    return blocks


def _indented(line: str) -> str:
    """Return a line of a patch made plain, with its mark and its indentation."""
    mark, code = line[:1], line[1:].expandtabs(4)
    body = code.lstrip(" ")
    return f"{mark if mark.isprintable() else ' '}{' ' * (len(code) - len(body))}{plain(body)}"


def _span(course: SearchResult) -> str:
    found = course.found
    return f"{course.probes[found.before].name} -> {course.probes[found.after].name}" if found else ""


def _version_table(course: SearchResult) -> list[str]:
    """Return a line for each version that was tested, in order; the first one after each change is marked."""
    marked = {change.after for change in course.changes if change.is_exact}
    rows = [(at, probe) for at, probe in enumerate(course.probes) if probe.answer is not None]
    width = max((len(probe.name) for _, probe in rows), default=0)
    lines = []
    for at, probe in rows:
        assert probe.answer is not None
        mark = ">" if at in marked else " "
        about = f"  {plain(probe.about)}" if probe.about else ""
        lines.append(
            f"{mark} {plain(probe.name):<{width}}  {probe.answer.value:<7}  {plain(_value(course, at))}{about}"
        )
    return lines


def _value(course: SearchResult, at: int) -> str:
    """Return the value in words; after a change, with the difference from the version before."""
    probe = course.probes[at]
    change = next((found for found in course.changes if found.after == at), None)
    before = course.probes[change.before] if change else None
    if before is None or course.unit in ("", "s", "tolerances") or not _are_numbers(probe, before):
        return probe.text
    difference = float(probe.value or 0) - float(before.value or 0)
    unit = "bytes" if course.unit == "bytes" else course.unit
    return f"{probe.text} ({'+' if difference > 0 else ''}{quantity(difference, unit)})"


def _are_numbers(*probes: Probe) -> bool:
    return all(isinstance(probe.value, (int, float)) for probe in probes)


def _course_json(course: SearchResult) -> dict[str, object]:
    found: dict[str, Any] = msgspec.to_builtins(course)
    for change, made in zip(course.changes, found["changes"], strict=True):
        made["exact"] = change.is_exact
        made["before"], made["after"] = course.probes[change.before].name, course.probes[change.after].name
    found["sentences"] = sentences(course)
    found["decided"] = course.is_decided
    return found
