"""The answer to ``recommend``: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dsregress.advice.capacity import FitVerdict
from dsregress.advice.release_advice import Advice, ReleaseAdvice, Workaround
from dsregress.messages import AND, COMMA, SEMICOLON, Text, joined, message, name_list, plural_message
from dsregress.report.answers.audit_answer import open_lines
from dsregress.report.answers.audit_json import conditions_fields
from dsregress.report.finding_fields import finding_fields
from dsregress.report.plain_text import indented_plain, plain
from dsregress.report.verdict_words import provisos_text
from dsregress.wording.names import stage_words
from dsregress.wording.quantities import listing, quantity
from vgpu.card_room import Certainty

#: Of ``--json``. History: 1 first.
SCHEMA = 1


def advice_text(advice: Advice, commands: Sequence[str]) -> str:
    """Return the answer for a terminal, ending in a newline. ``commands`` measure what is missing."""

    def spoken(text: Text) -> str:
        return plain(str(text))

    lines = [spoken(_question_words(advice)), "", *map(spoken, _recommended(advice))]
    if advice.pick is not None:
        lines += dict.fromkeys(spoken(message("costs: {finding}", finding=found.text)) for found in advice.pick.costs)
    if advice.pick is not None and advice.pick.advised is not None:
        lines += map(indented_plain, open_lines(advice.pick.advised, [f"{advice.package} {advice.pick.version}"]))
    newer = message("newer, not recommended:") if advice.pick else message("why not:")
    for title, releases in ((newer, advice.newer), (message("older:"), advice.older)):
        if releases:
            width = max(len(release.name) for release in releases)
            lines += ["", str(title)]
            for release in releases:
                first, *rest = [*_reasons(release), *(_ways(release) if releases is advice.newer else [])]
                lines.append(f"  {release.name.ljust(width)}  {spoken(first)}")
                lines += [f"  {' ' * width}  {spoken(line)}" for line in rest]
    if advice.missing:
        missing = name_list(list(advice.missing), 12)
        lines += ["", spoken(message("no results for: {releases}", releases=missing))]
    if commands:
        lines += ["", "to measure what is missing:", *(f"  {plain(command)}" for command in commands)]
    return "\n".join(lines) + "\n"


def advice_json(advice: Advice, commands: Sequence[str]) -> bytes:
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
            _release_json(release)
            for release in (*advice.newer, *([advice.pick] if advice.pick else []), *advice.older)
        ],
        "missing": list(advice.missing),
        "commands": list(commands),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _release_json(release: ReleaseAdvice) -> dict[str, object]:
    plain_release = msgspec.structs.replace(release, findings=(), ways=(), costs=(), advised=None)
    fields: dict[str, Any] = {**msgspec.to_builtins(plain_release), "advised": _advised_json(release)}
    fields["findings"] = [finding_fields(found) for found in release.findings]
    fields["costs"] = [finding_fields(found) for found in release.costs]
    fields["ways"] = [
        {
            **msgspec.to_builtins(msgspec.structs.replace(way, findings=())),
            "findings": [finding_fields(found) for found in way.findings],
        }
        for way in release.ways
    ]
    return {**fields, "is_clean": release.is_clean}


def _advised_json(release: ReleaseAdvice) -> dict[str, object] | None:
    if (found := release.advised) is None:
        return None
    return {
        "verdict": found.verdict.value,
        "against": [one.advisory.id for one in found.against],
        "conflicts": [one.text for one in found.conflicts],
        "conditions": conditions_fields(found),
    }


def _question_words(advice: Advice) -> Text:
    question = advice.question
    variant = "" if question.variant == "base" else question.variant
    workload = joined(COMMA, (question.scenario, variant))
    if question.card is not None:
        workload = message("{job} on {card}", job=workload, card=question.card.name)
    return message("{workload}: which release of {package} to pin?", workload=workload, package=advice.package)


def _recommended(advice: Advice) -> Iterator[Text]:
    measured = len(advice.newer) + len(advice.older) + (advice.pick is not None)
    if advice.pick is None:
        yield plural_message(
            "none of the {count:,} release with results here can be recommended",
            "none of the {count:,} releases with results here can be recommended",
            measured,
        )
        return
    standing = _standing(advice.pick.devices, advice.pick.room)
    if (advised := advice.pick.advised) is not None:
        release = f"{advice.package} {advice.pick.version}"
        yield f"pin {release}{provisos_text(advised)}"
        yield plural_message(
            "the newest of {count:,} release with results here that nothing rules out ({standing})",
            "the newest of {count:,} releases with results here that nothing rules out ({standing})",
            measured,
            standing=standing,
        )
        return
    yield plural_message(
        "pin {package} {release}: the newest of {count:,} release with results here without a known problem ({standing})",
        "pin {package} {release}: the newest of {count:,} releases with results here without a known problem ({standing})",
        measured,
        package=advice.package,
        release=advice.pick.name,
        standing=standing,
    )


def _standing(devices: Sequence[str], room: FitVerdict | None) -> Text:
    """Return where a release or a variant was measured, and its room."""
    measured = message("measured in {devices}", devices=joined(AND, devices))
    return joined(SEMICOLON, (measured, _room_words(room) if room is not None else ""))


def _room_words(room: FitVerdict) -> Text:
    needed = quantity(room.peak_bytes, "bytes")
    if room.certainty is Certainty.TOO_CLOSE:
        return message("too close to call: needs {needed}", needed=needed)
    if room.fails_in:
        return message("out of memory in {phase}: needs {needed}", phase=stage_words(room.fails_in), needed=needed)
    return message("fits, {spare} to spare", spare=quantity(room.headroom_bytes, "bytes"))


def _reasons(release: ReleaseAdvice) -> list[Text]:
    """Return the reasons not to recommend a release, one line each; for a clean one, a line that says so."""
    if release.is_clean and release.advised is not None and release.advised.conditions:
        names = listing([one.matched.advisory.id for one in release.advised.conditions])
        return [f"if set: {names}"]
    if release.is_clean:
        return [message("no known problem ({standing})", standing=_standing(release.devices, release.room))]
    lines: list[Text] = []
    if release.advised is not None:
        lines += [one.text for one in release.advised.conflicts]
        lines += [f"{one.advisory.id} {one.advisory.title}" for one in release.advised.against]
    lines += dict.fromkeys(found.text for found in release.findings)  # one workload may have several names
    if release.room is not None and release.room.fails_in:
        lines.append(_room_words(release.room))
    if release.unknown:
        lines.append(message("no verdict: {reason}", reason=release.unknown))
    return lines


def _ways(release: ReleaseAdvice) -> list[Text]:
    """Return the variants with which the release can be used anyway, one line each."""
    if release.unknown:
        return []
    if not release.ways:
        return [message("to use it anyway: no variant that helps was measured")]
    return [_way(way) for way in release.ways]


def _way(way: Workaround) -> Text:
    standing = _standing(way.devices, way.room)
    if not way.findings:
        return message(
            "to use it anyway: set {variant} (no finding, {standing})", variant=way.variant, standing=standing
        )
    findings = joined(SEMICOLON, dict.fromkeys(found.text for found in way.findings))
    return message(
        "to use it anyway: set {variant} (but {findings}; {standing})",
        variant=way.variant,
        findings=findings,
        standing=standing,
    )
