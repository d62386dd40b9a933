"""The answer to ``explore``: for a terminal, and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.explore import causes, space
from dsregress.explore.exploring import Explored
from dsregress.explore.release_faults import Fault
from dsregress.model import Stack
from dsregress.probe.factors import BY_NAME
from dsregress.report.plain_text import plain
from dsregress.reproduce import cells
from dsregress.reproduce.factors import SIMPLEST
from dsregress.wording import commands
from dsregress.wording.quantities import plural

#: Of ``--json``. History: 1 first; 2 ``changed``, ``confirmed``, ``why_not`` and ``script`` of a fault; 3 ``pairs_covered``
#: is a share, ``processor_s``, ``defaults``, and ``also``, ``found_s`` and ``found_processor_s`` of a fault; 4 ``problem``
#: of a fault that one release has alone: those with the same number have one cause; 5 ``interrupted``; 6 ``unmeasured``.
SCHEMA = 6


def exploration_text(found: Explored) -> str:
    """Return the answer for a terminal, ending in a newline."""
    older, newer = (_version(found, stack) for stack in found.request.releases)
    apart = _apart(found)
    covered = _covered(found)
    alike = f"{found.passed} sound and alike in both"
    lines = [
        plain(
            f"{found.request.package} {older} and {newer}: {plural(len(apart), 'problem')} that one of them has alone"
        ),
        f"{plural(found.tries, 'configuration')}, {covered}; {alike}.",
        f"{plural(found.cells, 'run')}, those of reductions included, in {_minutes(found.seconds)} minutes with "
        f"{_minutes(found.processor_s)} processor-minutes; seed {found.request.seed}.",
    ]
    if found.unmeasured:
        lines.append(f"{plural(found.unmeasured, 'configuration')} not measured: {plain(found.why_unmeasured)}.")
    for number, (first, *others) in enumerate(apart, start=1):
        lines += ["", *_fault(found, first, f"{number:2}")]
        for fault in others:
            lines += _fault(found, fault, " +")
    both = [fault for fault in found.faults if fault.other is None and fault.is_reduced]
    open_faults = [fault for fault in found.faults if not fault.is_reduced]
    number = len(apart)
    for title, faults in (
        ("In both:", both),
        ("Not reduced, so the other release may have them as well:", open_faults),
    ):
        lines += ["", title] if faults else []
        for fault in faults:
            number += 1
            lines += _fault(found, fault, f"{number:2}")
    if found.left:
        more = f"{plural(found.left, 'failure')} more, of kinds that faults above have"
        lines += ["", f"{more}: {_ended(found)} before they were reduced."]
    if found.defaults:
        lines += ["", "Settings in force that differ where the same is configured:"]
        for one in found.defaults:
            lines.append(f"   {plain(one.key)}: {plain(one.older)} in {older}, {plain(one.newer)} in {newer}")
    if found.interruption is not None:
        lines += ["", "It was interrupted: the same call goes on from here."]
    elif found.pairs_covered < 1:
        lines += ["", "The budget ended first: the same call with a larger --budget goes on from here."]
    return "\n".join(lines) + "\n"


def _apart(found: Explored) -> list[list[Fault]]:
    """Return the faults that only one of the releases has, grouped by their cause."""
    return causes.by_cause(fault for fault in found.faults if fault.tells_apart)


def _covered(found: Explored) -> str:
    """Return the coverage of the search, in words."""
    share = "every pair" if found.pairs_covered >= 1 else f"{int(100 * found.pairs_covered)} % of all pairs"
    return f"{share} of values among them"


def _ended(found: Explored) -> str:
    return "the budget ended" if found.interruption is None else "it was interrupted"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def _fault(found: Explored, fault: Fault, mark: str) -> list[str]:
    """Return the lines of one fault. ``mark``: its number, or a sign that it has the cause of the one above."""
    own = _version(found, fault.stack)
    alone = f", not {_version(found, fault.other)}" if fault.other is not None and fault.is_reduced else ""
    where = f"{found.request.package} {own}{alone}"
    metric = fault.question.name
    cell = f"{own}/{SIMPLEST}/{fault.variant}/{cells.DEVICE}"
    against = _version(found, fault.other) if fault.other is not None else ""
    lines = [
        plain(f"{mark} {where}: {fault.finding.message}"),
        f"   needs: {plain(needs(fault))}"
        if fault.is_reduced
        else f"   not reduced: {_ended(found)}, or it was not seen again",
        f"   seen in {plural(fault.tries, 'configuration')}, first after {_minutes(fault.found_s)} minutes with "
        f"{_minutes(fault.found_processor_s)} processor-minutes",
    ]
    lines += [f"   {plain(text)}" for text in _followed(found, fault)]
    if fault.is_reduced and fault.other is not None:
        lines.append(f"   {plain(commands.reproduce(cell, metric, against))}")
    return lines


def _followed(found: Explored, fault: Fault) -> list[str]:
    lines = []
    change, confirmation = fault.followed.change, fault.followed.confirmation
    if change is not None:
        before, after = _version(found, change.before), _version(found, change.after)
        began = fault.stack.id == found.request.releases[1].id
        if change.is_exact:
            lines.append(f"since {after}, not in {before}" if began else f"until {before}, not in {after}")
        else:
            lines.append(f"{'began' if began else 'ended'} after {before}, by {after}")
    if confirmation is not None:
        why = f": {confirmation.why_not}" if confirmation.why_not else ""
        lines.append("confirmed without the harness: " + ("yes" if confirmation.is_confirmed else f"no{why}"))
    return lines


def needs(fault: Fault) -> str:
    """Return a fault's conditions: ``ZeRO stage 1 or 2, gradient accumulation 2``; ``nothing`` if the simplest training
    shows it."""
    parts = []
    for name in fault.needs:
        values = list({repr(needs[name]): needs[name] for needs in fault.all_needs}.values())
        parts.append(BY_NAME[name].text(values))
    return ", ".join(parts) or "nothing"


def exploration_json(found: Explored) -> bytes:
    """Return everything as JSON, with a schema number."""
    number_of = {id(fault): number for number, cause in enumerate(_apart(found), start=1) for fault in cause}
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "package": found.request.package,
        "releases": [_version(found, stack) for stack in found.request.releases],
        "seed": found.request.seed,
        "budget_s": found.request.budget_s,
        "seconds": found.seconds,
        "processor_s": found.processor_s,
        "interrupted": found.interruption is not None,
        "configurations": found.tries,
        "passed": found.passed,
        "unmeasured": found.unmeasured,
        "not_reduced": found.left,
        "pairs_covered": found.pairs_covered,
        "runs": found.cells,
        "defaults": [
            {"key": one.key, "older": one.older, "newer": one.newer, "needs": space.varied_values(one.row)}
            for one in found.defaults
        ],
        "faults": [
            {
                "release": _version(found, fault.stack),
                "not_in": _version(found, fault.other) if fault.other is not None else None,
                "metric": fault.question.name,
                "message": fault.finding.message,
                "problem": number_of.get(id(fault)),
                "needs": fault.needs,
                "also": fault.also,
                "found_s": fault.found_s,
                "found_processor_s": fault.found_processor_s,
                "reduced": fault.is_reduced,
                "variant": fault.variant,
                "configurations": fault.tries,
                **_followed_json(found, fault),
            }
            for fault in found.faults
        ],
    }
    return msgspec.json.format(msgspec.json.encode(content))


def _followed_json(found: Explored, fault: Fault) -> dict[str, object]:
    change, confirmation = fault.followed.change, fault.followed.confirmation
    return {
        "changed": change
        and {
            "before": _version(found, change.before),
            "after": _version(found, change.after),
            "exact": change.is_exact,
        },
        "confirmed": confirmation and confirmation.is_confirmed,
        "why_not": confirmation.why_not if confirmation else "",
        "script": confirmation.script if confirmation else "",
    }


def _version(found: Explored, stack: Stack) -> str:
    return stack.versions[found.request.package]
