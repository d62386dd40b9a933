"""The answer to ``diagnose``: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dsregress.advice.diagnosis.crash import Crash
from dsregress.advice.diagnosis.diagnosis import Diagnosis
from dsregress.advice.diagnosis.failures import KnownFailure, MatchedProblem
from dsregress.advice.diagnosis.out_of_memory import MemoryMessage
from dsregress.advice.diagnosis.sizes import LEAST_BYTES, SizeMatch
from dsregress.compare import ProblemKind
from dsregress.report.plain import plain
from dsregress.report.problems import ProblemLine, sections
from dsregress.wording import commands
from dsregress.wording.quantities import plural, quantity, shortened

#: Of ``--json``. History: 1 first.
SCHEMA = 1

_MOST_PROBLEMS = 3
_MOST_SIZES = 3

_PHASES = {
    "load": "while a model or its engine is made",
    "forward": "in forward",
    "backward": "in backward",
    "step": "in step",
    "generate": "while generating",
}


def as_text(answer: Diagnosis) -> str:
    """Return the answer for a terminal, ending in a newline."""
    parts = [
        ("", [_heading(answer)]),
        ("the message:", list(_message(answer))),
        ("the traceback:", list(_traceback(answer.crash))),
        ("stored:", list(_stored(answer))),
    ]
    lines: list[str] = []
    for title, sentences in parts:
        if sentences:
            lines += [*([""] if lines else []), *([title] if title else [])]
            lines += [f"  {plain(one)}" if title else plain(one) for one in sentences]
    return "\n".join([*lines, "", "next:", f"  {plain(next_command(answer))}"]) + "\n"


def as_json(answer: Diagnosis) -> bytes:
    """Return everything as JSON, with a schema number."""
    crash = answer.crash
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "is_known": answer.is_known,
        "error": crash.error,
        "message": crash.message,
        "phase": crash.phase,
        "memory": msgspec.to_builtins(crash.memory),
        "frames": msgspec.to_builtins(crash.frames),
        "versions": crash.versions,
        "gpu": None if answer.card is None else answer.card.name,
        "scenario": answer.scenario,
        "model": None if answer.model is None else answer.model.name,
        "sizes": msgspec.to_builtins(answer.sizes),
        "problems": [_problem_json(one) for one in answer.problems],
        "known": msgspec.to_builtins(answer.known),
        "failures": answer.failures,
        "next": next_command(answer),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def next_command(answer: Diagnosis) -> str:
    """Return the command to run to be sure: it measures the stored case in the affected release and in the one to use, the
    remedies of the scenario, or the user's own program."""
    card = answer.card.name if answer.card is not None else ""
    if answer.problems:
        first = answer.problems[0]
        return commands.measure_again(first.stack, first.beside, first.assessment.problem.worst)
    if answer.known:
        return commands.regress_program(package=answer.known[0].package, release=answer.known[0].without, card=card)
    if answer.scenario:
        return commands.remedies_of(answer.scenario, card=card)
    return commands.regress_program(
        package=answer.package, release=answer.crash.versions.get(answer.package, ""), card=card
    )


def _heading(answer: Diagnosis) -> str:
    crash = answer.crash
    phase = f" {_PHASES[crash.phase]}" if crash.phase else ""
    versions = ", ".join(f"{name} {version}" for name, version in crash.versions.items())
    with_them = f" (with {versions})" if versions else ""
    if crash.memory is None:
        return f"{crash.error}{phase}: {shortened(crash.message, 120)}{with_them}"
    whose = "the host" if crash.memory.where == "host" else "a GPU"
    return f"{whose} ran out of memory{phase}{with_them}"


def _message(answer: Diagnosis) -> Iterator[str]:
    memory = answer.crash.memory
    if memory is None:
        return
    if memory.requested is None:
        yield "it gives no size: a library of CUDA, or the driver, had no memory, and not PyTorch's allocator"
        return
    free = f"; {memory.free.text} was free" if memory.free else ""
    of = f" of {memory.capacity.text}" if memory.free and memory.capacity else ""
    yield f"{memory.requested.text} was requested{free}{of}{_card(answer)}"
    yield from _sizes(answer)
    yield from _holders(memory)


def _card(answer: Diagnosis) -> str:
    return f" ({answer.card.name})" if answer.card is not None else ""


def _sizes(answer: Diagnosis) -> Iterator[str]:
    requested = answer.crash.memory.requested if answer.crash.memory else None
    if requested is None:
        return
    for one in answer.sizes[:_MOST_SIZES]:
        yield f"{requested.text} = {one.product}: {_what(one)}"
    if not answer.sizes and requested.nbytes < LEAST_BYTES:
        yield "a request of this size may be any of many tensors"
    elif not answer.sizes:
        of = f" of {answer.model.name}" if answer.model is not None else ""
        hint = "" if answer.scenario else "; --scenario names a workload with its sizes"
        yield f"no tensor{of} that is known here has this size{hint}"


def _what(one: SizeMatch) -> str:
    if not one.model:
        return one.what
    return f"{one.what}, if the vocabulary is that of {one.model}" if one.is_assumed else f"{one.what} of {one.model}"


def _holders(memory: MemoryMessage) -> Iterator[str]:
    unallocated, requested = memory.unallocated, memory.requested
    if unallocated is not None and requested is not None:
        size = quantity(unallocated.nbytes, "bytes")
        if unallocated.nbytes < 1:
            yield "not fragmentation: all that PyTorch reserved is in use"
        elif unallocated.nbytes >= requested.nbytes:
            yield f"fragmented: {size} is reserved and in no use, more than the request; try expandable_segments:True"
        elif unallocated.nbytes + (memory.free.nbytes if memory.free else 0.0) >= requested.nbytes:
            yield f"fragmented: {size} is reserved and in no use, enough with what is free; try expandable_segments:True"
        else:
            yield f"not fragmentation: {size} is reserved and in no use, too little for the request"
    others = memory.others_bytes
    if others is not None and others >= 64 << 20:
        yield f"other processes hold {quantity(others, 'bytes')} of the card"
    elif others is not None:
        yield "no other process holds memory of the card"
    if memory.outside_bytes is not None:
        outside = quantity(memory.outside_bytes, "bytes")
        yield f"this process holds {outside} outside of PyTorch: CUDA's context, NCCL, libraries"


def _traceback(crash: Crash) -> Iterator[str]:
    if crash.last_of_user is not None:
        yield f"last in your code: {crash.last_of_user.text}"
    if crash.first_of_framework is not None:
        yield f"first in a framework: {crash.first_of_framework.text}"
    if crash.frames and crash.frames[-1] not in (crash.last_of_user, crash.first_of_framework):
        yield f"it ended at: {crash.frames[-1].text}"


def _stored(answer: Diagnosis) -> Iterator[str]:
    for one in answer.problems[:_MOST_PROBLEMS]:
        yield from _problem(answer, one)
    if len(answer.problems) > _MOST_PROBLEMS:
        yield f"and {len(answer.problems) - _MOST_PROBLEMS} more; --json has them"
    for known in answer.known:
        yield from _known(known)
    if not answer.problems and not answer.known:
        why = (
            ""
            if answer.crash.memory is None or answer.crash.frames
            else "it has no traceback, so no phase to look up: "
        )
        yield f"{why}not among the {plural(answer.failures, 'failure')} stored here"


def _problem(answer: Diagnosis, one: MatchedProblem) -> Iterator[str]:
    line = _line(one)
    package = answer.package
    what = "may be" if one.assessment.kind is not ProblemKind.CRASH else "is" if one.is_same_place else "looks like"
    yield f"it {what} a problem of {package} {line.releases}: {line.sentences}"
    yield f"  since {line.since}; until {line.until}"
    mentioned = answer.crash.versions.get(package, "")
    if not mentioned:
        yield f"  the text does not say which {package} it is"
    elif one.has_version is None:
        yield f"  {package} {mentioned} was not measured on it"
    elif not one.has_version:
        yield f"  but {package} {mentioned} was measured without it"
    yield f"  in {one.source}"


def _known(one: KnownFailure) -> Iterator[str]:
    yield f"it is known of {one.who}: {one.why}"
    yield f"  since {one.package} {one.since}; not with {one.package} {one.without}"
    yield f"  {one.remedy} (see {one.page})"


def _line(one: MatchedProblem) -> ProblemLine:
    (section,) = sections(one.comparison, [one.assessment])
    return section.problems[0]


def _problem_json(one: MatchedProblem) -> dict[str, Any]:
    line = _line(one)
    return {
        "source": one.source,
        "kind": line.kind.name.lower(),
        "releases": line.releases,
        "text": line.sentences,
        "since": line.since,
        "until": line.until,
        "having": list(line.having),
        "free": list(line.free),
        "workloads": list(line.workloads),
        "release_to_use": line.release_to_use,
        "is_same_place": one.is_same_place,
        "has_version": one.has_version,
    }
