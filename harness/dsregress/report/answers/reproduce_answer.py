"""The answer to ``reproduce``: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from packaging.version import Version

from dsregress.advice.known_problems import advisories_of_symptom
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.measured_jobs import job_facts
from dsregress.advisories.osv import event_ranges
from dsregress.model import Verdict
from dsregress.report.advisory_words import releases_of_advisory
from dsregress.report.plain_text import plain
from dsregress.report.stored_answers import REPRODUCTION_SCHEMA
from dsregress.reproduce import upstream
from dsregress.reproduce.reduction import Condition
from dsregress.reproduce.reproduction import ReleaseAnswer, Reproduction
from dsregress.reproduce.running import ScriptRun


def reproduction_text(found: Reproduction) -> str:
    """Return the answer for a terminal, ending in a newline."""
    lines = [
        plain(f"{found.question.title}: {found.package} {found.bad}, not in {found.good}"),
        *(f"{label}: {plain(text)}" for label, text in needs(found)),
        plain(f"smallest cell: {found.smallest.id}"),
        *(f"{label}: {plain(text)}" for label, text in spans(found)),
        f"known upstream: {known_upstream(found)}",
        f"confirmed without the harness: {'yes' if found.is_confirmed else 'no'}",
        *(f"  {plain(output(run))}" for run in found.runs),
    ]
    if found.why_not:
        lines.append(f"  {plain(found.why_not)}")
    lines += [f"goes away with {plain(one.text)}: {plain(one.run.line)}" for one in found.remedies]
    if found.script is not None:
        lines.append(f"script: {plain(found.script.file)}")
    return "\n".join(lines) + "\n"


def reproduction_json(found: Reproduction) -> bytes:
    """Return everything as JSON, with a schema number."""
    content: dict[str, Any] = {
        "schema": REPRODUCTION_SCHEMA,
        "cell": found.cell.id,
        "metric": found.question.name,
        "package": found.package,
        "bad": found.bad,
        "good": found.good,
        "confirmed": found.is_confirmed,
        "why_not": found.why_not,
        "smallest_cell": found.smallest.id,
        "needs": [_condition(condition) for condition in found.reduced.needed],
        "indifferent": [_condition(condition) for condition in found.reduced.indifferent],
        "not_known": [_condition(condition) for condition in found.reduced.open],
        "runs": [_run(run) for run in found.runs],
        "remedies": [{"text": one.text, **_run(one.run)} for one in found.remedies],
        "upstream": msgspec.to_builtins(_upstream(found)),
        "releases": [{"version": o.version, "answer": o.answer.value, "text": o.text} for o in found.history],
        "script": found.script.text if found.script is not None else None,
        "machine": found.machine,
        "trials": found.trials,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def needs(found: Reproduction) -> list[tuple[str, str]]:
    """Return (label, text) of the finding's conditions, what it was seen with, the factors that do not matter to it, and the
    values whose effect is unknown."""
    named = [
        ("needs", "; ".join(_needed(found.reduced.needed))),
        ("seen with", "; ".join(one.factor.text(one.shown) for one in found.reduced.seen_with)),
        ("does not matter", ", ".join(condition.factor.noun for condition in found.reduced.indifferent)),
        ("not known", "; ".join(condition.factor.text(condition.unknown) for condition in found.reduced.open)),
    ]
    return [(label, text) for label, text in named if text]


def spans(found: Reproduction) -> list[tuple[str, str]]:
    """Return (label, text) of the affected releases, among the two that were compared and those with stored results, with
    the nearest unaffected ones, and those in between that are unknown; empty without any."""
    compared = {found.bad: Verdict.BAD, found.good: Verdict.GOOD}
    known = {version: ReleaseAnswer(version=version, answer=answer, text="") for version, answer in compared.items()}
    known |= {one.version: one for one in found.history}
    advisory = known_advisory(found)
    affected = []
    for one in _affected_spans(sorted(known.values(), key=lambda answer: Version(answer.version))):
        span = one.bad[0] if len(one.bad) == 1 else f"{one.bad[0]} to {one.bad[-1]}"
        parts = [
            f"not in {one.before}" if one.before else "no older one is known not to have it",
            f"not in {one.after}" if one.after else _newer(advisory, found.package, one.bad[-1]),
            *([f"not known of {', '.join(one.unknown)}"] if one.unknown else []),
        ]
        affected.append(f"{span} ({'; '.join(parts)})")
    known_as = [] if advisory is None else [("known as", f"{advisory.id}: {releases_of_advisory(advisory)}")]
    return [*([("affected releases", "; ".join(affected))] if affected else []), *known_as]


def known_advisory(found: Reproduction) -> Advisory | None:
    """Return the advisory that knows the finding in its smallest cell; None if none does."""
    question, smallest = found.question, found.smallest
    bad = next((run.line for run in found.runs if run.answer is Verdict.BAD), "")
    known = advisories_of_symptom(
        metric=question.metric,
        phase=question.phase,
        error=f"{question.key} {bad}",
        versions={**smallest.stack.versions, found.package: found.bad},
        facts=job_facts(smallest.workload, smallest.parameters),
    )
    return next(iter(known), None)


def _newer(advisory: Advisory | None, package: str, last: str) -> str:
    """Return the release that ends a problem after the last measured one with it, by its advisory."""
    ranges = [one for one in advisory.ranges if one.package == package] if advisory is not None else []
    ends = [end for one in ranges for _, end in event_ranges(one.affected, one.unaffected) if end]
    later = [end for end in ends if Version(end) > Version(last)]
    return f"not in {min(later, key=Version)}" if later else "no newer one is known not to have it"


def _upstream(found: Reproduction) -> upstream.UpstreamProblem | None:
    return upstream.problem_of(found.package, found.bad, found.question, found.smallest.parameters)


def known_upstream(found: Reproduction) -> str:
    """Return what was looked up about the finding upstream, with addresses."""
    problem = _upstream(found)
    if problem is None:
        return "not looked up, or not found"
    parts = [
        *(f"reported, {address}" for address in problem.reported),
        *(f"introduced by {address}" for address in problem.introduced),
        *(f"a fix is {address}" for address in problem.fixed),
        *(f"related, {address}" for address in problem.related),
    ]
    return f"{problem.what}: {'; '.join(parts)} (looked up {problem.looked_up})"


class _AffectedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Bad releases between two good ones; an end is empty if it is unknown."""

    before: str
    bad: tuple[str, ...]
    unknown: tuple[str, ...]  #: between the two good ones
    after: str


def _affected_spans(history: Sequence[ReleaseAnswer]) -> list[_AffectedSpan]:
    found: list[_AffectedSpan] = []
    before, bad, unknown = "", list[str](), list[str]()

    def end(after: str) -> None:
        if bad:
            found.append(_AffectedSpan(before=before, bad=tuple(bad), unknown=tuple(unknown), after=after))

    for one in history:
        if one.answer is Verdict.BAD:
            bad.append(one.version)
        elif one.answer is Verdict.UNKNOWN:
            unknown.append(one.version)
        else:
            end(one.version)
            before, bad, unknown = one.version, [], []
    end("")
    return found


def _needed(conditions: Sequence[Condition]) -> list[str]:
    return [condition.factor.text(condition.shown, condition.hidden) for condition in conditions]


def _condition(condition: Condition) -> dict[str, object]:
    return {
        "factor": condition.factor.name,
        "value": condition.value,
        "shown": list(condition.shown),
        "hidden": list(condition.hidden),
        "unknown": list(condition.unknown),
    }


def _run(run: ScriptRun) -> dict[str, object]:
    return {"version": run.version, "answer": run.answer.value, "exit_code": run.exit_code, "line": run.line}


def output(run: ScriptRun) -> str:
    """Return a run of the script as one line."""
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    return f"{run.version}{code}: {run.line}"
