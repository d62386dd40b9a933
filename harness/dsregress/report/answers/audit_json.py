"""The answer to ``audit`` as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dsregress.advisories.auditing import Audit, StatedJob, asked
from dsregress.advisories.job_facts import OneOf
from dsregress.advisories.matching import Matched, condition_text
from dsregress.advisories.upgrading import UpgradeAnswer
from dsregress.report.advisory_words import remedy_request
from dsregress.report.answers.audit_answer import audit_headline
from dsregress.report.verdict_words import upgrade_headline

#: 1: the first.
SCHEMA = 1


def audit_json(audit: Audit, job: StatedJob) -> str:
    """Return the answer for a job as it is."""
    return _text(
        {
            "schema": SCHEMA,
            "answer": audit_headline(audit),
            "job": _job(job),
            **_audit(audit),
        }
    )


def upgrade_json(answer: UpgradeAnswer, audit: Audit, old: StatedJob, new: StatedJob, command: str) -> str:
    """Return the answer for an upgrade. ``command`` measures what is not known."""
    return _text(
        {
            "schema": SCHEMA,
            "answer": upgrade_headline(answer, old, new),
            "verdict": answer.verdict.value,
            "job": _job(old),
            "to": dict(new.versions),
            "against": _matched(answer.against),
            "conflicts": [one.text for one in answer.conflicts],
            "conditions": [
                {"advisory": one.matched.advisory.id, "remedies": msgspec.to_builtins(one.remedies)}
                for one in answer.conditions
            ],
            "arising": [
                {"remedy": remedy_request(one.remedy), "advisory": one.matched.advisory.id} for one in answer.arising
            ],
            "instead": dict(answer.instead),
            "as_well": dict(answer.ending),
            "staying": dict(answer.staying),
            "gained": _matched(answer.gained),
            "kept": _matched(answer.kept),
            "kept_open": _questions(answer.kept_open),
            "changes": _matched(answer.changes),
            "costs": _matched(answer.costs),
            "skipped": [
                {"package": one.package, "releases": list(one.releases), "advisory": one.matched.advisory.id}
                for one in answer.skipped
            ],
            "depends": _questions(answer.depends),
            "hinges": _matched(answer.hinges),
            "usual": _matched(answer.usual),
            "not_run": _matched(answer.not_run),
            "unknown": _matched(answer.unknown),
            "measure": command,
            "target": _audit(audit),
        }
    )


def conditions_fields(answer: UpgradeAnswer) -> list[dict[str, Any]]:
    """Return what must be set for a release, by the advisories that require it."""
    return [
        {"id": one.matched.advisory.id, "remedies": [remedy_request(each) for each in one.remedies]}
        for one in answer.conditions
    ]


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "advisories": audit.total,
        "concerned": _matched(audit.concerned),
        "for_all": dict(audit.for_all),
        "conflicts": [one.text for one in audit.conflicts],
        "notes": _matched(audit.notes),
        "costs": _matched(audit.costs),
        "usual": _matched(audit.usual),
        "depends": _questions((*audit.usual, *(each for one in audit.questions for each in one.matched))),
        "unknown": _matched(audit.unknown),
        "free": audit.free,
        "ignored": list(audit.ignored),
        "unlisted": list(audit.unlisted),
    }


def _questions(depending: Iterable[Matched]) -> list[dict[str, Any]]:
    return [
        {
            "facts": [
                {"fact": each.fact, "shown": list(each.shown), "text": condition_text(each)} for each in one.conditions
            ],
            "packages": list(one.packages),
            "advisories": [each.advisory.id for each in one.matched],
        }
        for one in asked(depending)
    ]


def _job(job: StatedJob) -> dict[str, Any]:
    return {
        "versions": dict(job.versions),
        "facts": [
            {
                "name": fact.name,
                "value": list(fact.value.values) if isinstance(fact.value, OneOf) else fact.value,
                "source": fact.source,
            }
            for fact in job.facts.values()
        ],
        "conflicts": [
            {"name": one.first.name, "sources": [one.first.source, one.second.source]} for one in job.conflicts
        ],
    }


def _matched(found: Sequence[Matched]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.advisory.id,
            "title": one.advisory.title,
            "kind": one.advisory.kind.value,
            "ruling": one.advisory.ruling.value,
            "sees": one.advisory.sees,
            "remedies": [remedy_request(remedy) for remedy in one.advisory.remedies],
            **({"not_run": list(one.not_run)} if one.not_run else {}),
        }
        for one in found
    ]
