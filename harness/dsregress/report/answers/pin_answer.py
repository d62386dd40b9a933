"""The answer to ``recommend`` for a stated job, by the advisories: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.matching import Matched
from dsregress.advisories.pinning import PinAnswer
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict
from dsregress.report.answers.audit_answer import upgrade_sections
from dsregress.report.answers.audit_json import conditions_fields
from dsregress.report.verdict_words import provisos_text, uncovered_text

#: Of ``--json``. History: 1 first.
SCHEMA = 1

_MOST_NEWER = 6


def pin_text(pin: PinAnswer, job: StatedJob) -> str:
    """Return the answer for a terminal, ending in a newline."""
    sections = [[pin_headline(pin)]]
    if pin.answer is not None:
        sections += upgrade_sections(pin.answer, None, job.going_to({pin.package: pin.release}))
    sections.append([*_newer_lines(pin)])
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def pin_headline(pin: PinAnswer) -> str:
    """Return the first line: the release, and what it depends on."""
    if pin.answer is None:
        if pin.is_ruled_out:
            return f"no release of {pin.package} is free of faults for this job"
        if any(answer.verdict is Verdict.NO for _, answer in pin.newer):
            return f"not known which release of {pin.package} to pin: some have faults, the others were not run"
        return f"not known which release of {pin.package} to pin: none was run for a job like this"
    release = f"{pin.package} {pin.release}"
    return f"pin {release}{provisos_text(pin.answer)}"


def pin_json(pin: PinAnswer) -> bytes:
    """Return everything as JSON, with a schema number."""
    content = {
        "schema": SCHEMA,
        "package": pin.package,
        "pick": pin.release or None,
        "answer": pin_headline(pin),
        "conditions": conditions_fields(pin.answer) if pin.answer is not None else [],
        "newer": [
            {"release": release, "verdict": answer.verdict.value, "ids": [one.advisory.id for one in _reasons(answer)]}
            for release, answer in pin.newer
        ],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _reasons(answer: UpgradeAnswer) -> tuple[Matched, ...]:
    return answer.against if answer.verdict is Verdict.NO else answer.usual or answer.hinges or answer.unknown


def _newer_lines(pin: PinAnswer) -> Iterator[str]:
    if pin.newer:
        yield "newer, not recommended:" if pin.release else "why not:"
    for release, answer in pin.newer[:_MOST_NEWER]:
        known = "" if answer.verdict is Verdict.NO else "not known: "
        reasons = [one.text for one in answer.conflicts]
        reasons += [f"{one.advisory.id} {one.advisory.title}" for one in _reasons(answer)]
        if answer.uncovered and answer.verdict is not Verdict.NO:
            reasons = [uncovered_text(answer)]
        yield f"  {release}: {known}{'; '.join(reasons)}"
    if len(pin.newer) > _MOST_NEWER:
        yield f"  and {len(pin.newer) - _MOST_NEWER} more"
