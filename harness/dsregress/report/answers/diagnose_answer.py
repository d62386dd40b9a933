"""The answer to ``diagnose``: for a terminal, and as JSON."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import msgspec

from dsregress.advice.diagnosis.crash import Crash
from dsregress.advice.diagnosis.diagnosis import Diagnosis
from dsregress.advice.diagnosis.failures import MatchedProblem
from dsregress.advice.diagnosis.known_errors import goes_through
from dsregress.advice.diagnosis.out_of_memory import MemoryMessage
from dsregress.advice.diagnosis.process_ends import EndKind, ProcessEnd
from dsregress.advice.diagnosis.tensor_sizes import LEAST_BYTES, SizeMatch
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.matching import Match, Matched, condition_text
from dsregress.compare import ProblemKind
from dsregress.messages import COLON, COMMA, SEMICOLON, SENTENCE, Text, joined, message, plural_message
from dsregress.report.advisory_words import releases_of_advisory, remedy_request
from dsregress.report.context import report_context
from dsregress.report.plain_text import indented_plain, plain
from dsregress.report.problem_lines import ProblemLine, problem_lines
from dsregress.wording import commands
from dsregress.wording.quantities import quantity, shortened

#: Of ``--json``. History: 1 first; 2 `known` has advisories.
SCHEMA = 2

_MOST_PROBLEMS = 3
_MOST_REMEDIES = 4
_MOST_SIZES = 3

_PHASES = {
    "load": message("while a model or its engine is made"),
    "forward": message("in forward"),
    "backward": message("in backward"),
    "step": message("in step"),
    "generate": message("while generating"),
}


def diagnosis_text(answer: Diagnosis) -> str:
    """Return the answer for a terminal, ending in a newline."""
    parts: list[tuple[Text, list[Text]]] = [
        ("", [_crash_text(answer)]),
        (message("the message:"), list(_message_lines(answer))),
        (message("the traceback:"), list(_traceback(answer.crash))),
        (message("known:") if answer.known or not answer.failures else message("stored:"), list(_stored(answer))),
    ]
    lines: list[str] = []
    for title, sentences in parts:
        if sentences:
            lines += [*([""] if lines else []), *([str(title)] if title else [])]
            lines += [f"  {indented_plain(str(one))}" if title else plain(str(one)) for one in sentences]
    return "\n".join([*lines, "", "next:", f"  {plain(next_command(answer))}"]) + "\n"


def diagnosis_json(answer: Diagnosis) -> bytes:
    """Return everything as JSON, with a schema number."""
    crash = answer.crash
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "is_known": answer.is_known,
        "error": crash.error,
        "message": crash.message,
        "phase": crash.phase,
        "end": msgspec.to_builtins(crash.end),
        "memory": msgspec.to_builtins(crash.memory),
        "frames": msgspec.to_builtins(crash.frames),
        "versions": crash.versions,
        "gpu": None if answer.card is None else answer.card.name,
        "scenario": answer.scenario,
        "model": None if answer.model is None else answer.model.name,
        "sizes": [{**msgspec.structs.asdict(one), "what": str(one.what)} for one in answer.sizes],
        "problems": [_matched_problem_json(one) for one in answer.problems],
        "known": [_advisory_json(one) for one in answer.known],
        "ruled_out": [one.id for one in answer.ruled_out],
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
        return _measuring_remedy(answer, card)
    if answer.scenario:
        return commands.remedies_of(answer.scenario, card=card)
    releases = (answer.beside, answer.versions.get(answer.package, ""))
    return commands.regress_program(package=answer.package, releases=releases, card=card)


def _measuring_remedy(answer: Diagnosis, card: str) -> str:
    """Return the command that runs the program with the release that ends what is known, and with its own."""
    advisory = answer.known[0].advisory
    release = next((one for one in advisory.remedies if one.version), None)
    if release is None:
        return commands.regress_program(package=answer.package, card=card)
    own = answer.versions.get(release.package, "")
    return commands.regress_program(package=release.package, releases=(release.version, own), card=card)


def _crash_text(answer: Diagnosis) -> Text:
    crash = answer.crash
    phase = _PHASES.get(crash.phase, "")
    text: Text
    if crash.end is not None:
        text = joined(SENTENCE, (_end_text(crash.end), phase))
    elif crash.memory is None:
        error = joined(SENTENCE, (crash.error, phase))
        text = message("{error}: {message}", error=error, message=shortened(crash.message, 120))
    elif crash.memory.where == "host":
        text = joined(SENTENCE, (message("the host ran out of memory"), phase))
    else:
        text = joined(SENTENCE, (message("a GPU ran out of memory"), phase))
    if not crash.versions:
        return text
    versions = joined(COMMA, (f"{name} {version}" for name, version in crash.versions.items()))
    return message("{error} (with {versions})", error=text, versions=versions)


def _end_text(end: ProcessEnd) -> Text:
    """Return how a process ended without a Python error."""
    if end.kind is not EndKind.TIMEOUT:
        text = message("a process was ended by {signal}", signal=end.signal)
        return joined(COLON, (text, shortened(end.said, 120))) if end.said else text
    if not end.collective:
        return message("a collective did not return: a watchdog ended the process")
    if end.waited_s is None:
        return message("{collective} did not return: a watchdog ended the process", collective=end.collective)
    return message(
        "{collective} did not return in {seconds}: a watchdog ended the process",
        collective=end.collective,
        seconds=quantity(end.waited_s, "s"),
    )


def _end_lines(answer: Diagnosis, end: ProcessEnd) -> Iterator[Text]:
    """Yield what such an end means, and what to add to the text."""
    if end.kind is EndKind.KILLED:
        yield message("the kernel ends a process so if the host's memory runs out: its log says so (dmesg)")
    elif end.kind is EndKind.TIMEOUT:
        yield message("another rank ended, or did not call it; add the first error of each rank")
        yield message("if no rank has one: add the stack of each (py-spy dump --pid PID)")
    else:
        yield message("compiled code ended it, so that it has no Python error")
        if end.signal == signal.SIGBUS.name:
            yield message("a bus error is most often a full /dev/shm, of a container with little of it")
        if not answer.crash.frames:
            yield message("run it with PYTHONFAULTHANDLER=1, and add the stack that Python then writes")


def _message_lines(answer: Diagnosis) -> Iterator[Text]:
    memory = answer.crash.memory
    if answer.crash.end is not None:
        yield from _end_lines(answer, answer.crash.end)
    if answer.crash.is_ignored:
        yield message(
            "Python goes on after this error, of a destructor, a callback or a thread: what ended the run is not in the text"
        )
    if memory is None:
        return
    if memory.is_of_another:
        yield message("the system ended a process for it, so that the text has no traceback of it")
        return
    if memory.requested is None:
        yield message("it gives no size: a library of CUDA, or the driver, had no memory, and not PyTorch's allocator")
        return
    text = message("{size} was requested", size=memory.requested.text)
    if memory.free and memory.capacity:
        text = message(
            "{request}; {free} was free of {capacity}",
            request=text,
            free=memory.free.text,
            capacity=memory.capacity.text,
        )
    elif memory.free:
        text = message("{request}; {free} was free", request=text, free=memory.free.text)
    yield message("{text} ({card})", text=text, card=answer.card.name) if answer.card is not None else text
    yield from _sizes(answer)
    yield from _holder_lines(memory)


def _sizes(answer: Diagnosis) -> Iterator[Text]:
    requested = answer.crash.memory.requested if answer.crash.memory else None
    if requested is None:
        return
    for one in answer.sizes[:_MOST_SIZES]:
        yield message(
            "{size} = {product}: {what}", size=requested.text, product=one.product, what=_size_explanation(one)
        )
    if not answer.sizes and requested.nbytes < LEAST_BYTES:
        yield message("a request of this size may be any of many tensors")
    elif not answer.sizes:
        none = message("no tensor that is known here has this size")
        if answer.model is not None:
            none = message("no tensor of {model} that is known here has this size", model=answer.model.name)
        hint = "" if answer.scenario else message("--scenario names a workload with its sizes")
        yield joined(SEMICOLON, (none, hint))


def _size_explanation(one: SizeMatch) -> Text:
    if not one.model:
        return one.what
    if one.is_assumed:
        return message("{what}, if the vocabulary is that of {model}", what=one.what, model=one.model)
    return message("{what} of {model}", what=one.what, model=one.model)


def _holder_lines(memory: MemoryMessage) -> Iterator[Text]:
    unallocated, requested = memory.unallocated, memory.requested
    if unallocated is not None and requested is not None:
        size = quantity(unallocated.nbytes, "bytes")
        if unallocated.nbytes < 1:
            yield message("not fragmentation: all that PyTorch reserved is in use")
        elif unallocated.nbytes >= requested.nbytes:
            yield message(
                "fragmented: {size} is reserved and in no use, more than the request; try expandable_segments:True",
                size=size,
            )
        elif unallocated.nbytes + (memory.free.nbytes if memory.free else 0.0) >= requested.nbytes:
            yield message(
                "fragmented: {size} is reserved and in no use, enough with what is free; try expandable_segments:True",
                size=size,
            )
        else:
            yield message("not fragmentation: {size} is reserved and in no use, too little for the request", size=size)
    others = memory.others_bytes
    if others is not None and others >= 64 << 20:
        yield message("other processes hold {size} of the card", size=quantity(others, "bytes"))
    elif others is not None:
        yield message("no other process holds memory of the card")
    if memory.outside_bytes is not None:
        outside = quantity(memory.outside_bytes, "bytes")
        yield message("this process holds {size} outside of PyTorch: CUDA's context, NCCL, libraries", size=outside)


def _traceback(crash: Crash) -> Iterator[Text]:
    if crash.last_of_user is not None:
        yield message("last in your code: {frame}", frame=crash.last_of_user.text)
    if crash.first_of_framework is not None:
        yield message("first in a framework: {frame}", frame=crash.first_of_framework.text)
    if crash.frames and crash.frames[-1] not in (crash.last_of_user, crash.first_of_framework):
        yield message("it ended at: {frame}", frame=crash.frames[-1].text)


def _stored(answer: Diagnosis) -> Iterator[Text]:
    for one in answer.problems[:_MOST_PROBLEMS]:
        yield from _matched_problem(answer, one)
    if len(answer.problems) > _MOST_PROBLEMS:
        yield message("and {count} more; --json has them", count=len(answer.problems) - _MOST_PROBLEMS)
    for known in answer.known:
        yield from _advisory_lines(answer, known)
    for reads_like in answer.ruled_out:
        yield message(
            "it reads like {advisory}, which the releases or facts of the job rule out: {title}",
            advisory=reads_like.id,
            title=reads_like.title,
        )
    if not answer.problems and not answer.known:
        why: Text = ""
        memory = answer.crash.memory
        if memory is not None and not memory.is_of_another and not answer.crash.frames:
            why = message("it has no traceback, so no phase to look up")
        failures = plural_message(
            "not among the {count:,} failure stored here",
            "not among the {count:,} failures stored here",
            answer.failures,
        )
        yield joined(COLON, (why, failures if answer.failures else message("no advisory knows it")))


def _matched_problem(answer: Diagnosis, one: MatchedProblem) -> Iterator[Text]:
    words = _problem_line(one).words
    package, releases = one.package, words.releases
    is_named = str(releases).startswith(f"{package} ")
    problem = message(
        "a problem of {releases}: {sentences}",
        releases=releases if is_named else joined(SENTENCE, (package, releases)),
        sentences=joined(SENTENCE, (words.text, words.end)),
    )
    if one.assessment.kind is not ProblemKind.CRASH:
        yield message("it may be {problem}", problem=problem)
    elif one.is_same_place:
        yield message("it is {problem}", problem=problem)
    else:
        yield message("it looks like {problem}", problem=problem)
    yield message("  since {since}; until {until}", since=words.since.text, until=words.until.text)
    mentioned = answer.versions.get(package, "")
    if not mentioned:
        yield message("  the text does not say which {package} it is", package=package)
    elif one.has_version is None:
        yield message("  {package} {release} was not measured on it", package=package, release=mentioned)
    elif not one.has_version:
        yield message("  but {package} {release} was measured without it", package=package, release=mentioned)
    yield message("  in {file}", file=one.source)


def _advisory_lines(answer: Diagnosis, one: Matched) -> Iterator[Text]:
    advisory = one.advisory
    is_unsure = (
        answer.crash.memory is not None
        or answer.crash.end is not None
        or one.match is Match.UNKNOWN
        or (not answer.crash.frames and len(answer.known) > 1)  # their places tell them apart
        or not goes_through(answer.crash, advisory)
    )
    if is_unsure:
        yield message("it may be {advisory}: {title}", advisory=advisory.id, title=advisory.title)
    else:
        yield message("it is known as {advisory}: {title}", advisory=advisory.id, title=advisory.title)
    yield message("  in {releases}", releases=releases_of_advisory(advisory))
    if one.match is Match.CONCERNED and advisory.conditions:
        yield message("  the job has all that it takes: {conditions}", conditions=_condition_list(advisory))
    elif advisory.conditions:
        yield message("  if: {conditions}", conditions=_condition_list(advisory))
    remedies = [remedy_request(each) for each in advisory.remedies[:_MOST_REMEDIES]]
    yield message(
        "  remedy: {remedy}", remedy=joined(message("{first}; or {next}"), remedies) or message("none is known")
    )


def _condition_list(advisory: Advisory) -> Text:
    return joined(COMMA, map(condition_text, advisory.conditions))


def _advisory_json(one: Matched) -> dict[str, object]:
    advisory = one.advisory
    return {
        "id": advisory.id,
        "title": advisory.title,
        "kind": advisory.kind.value,
        "match": one.match.value,
        "releases": releases_of_advisory(advisory),
        "conditions": [condition_text(each) for each in advisory.conditions],
        "remedies": [remedy_request(each) for each in advisory.remedies],
    }


def _problem_line(one: MatchedProblem) -> ProblemLine:
    (line,) = problem_lines(report_context(one.comparison), [one.assessment])
    return line


def _matched_problem_json(one: MatchedProblem) -> dict[str, object]:
    line = _problem_line(one)
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
