"""The answer to ``upgrade`` as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dsregress.report.answers.audit_json import conditions_fields
from dsregress.report.answers.upgrade_answer import TogetherAnswer, UpgradeAnswers, upgrade_line

#: 1: the first.
SCHEMA = 1


def upgrades_json(
    answers: Sequence[UpgradeAnswers],
    together: TogetherAnswer | None,
    commands: Mapping[str, str],
    unchecked: Sequence[str],
) -> str:
    """Return the answers for all packages. ``commands``, by package, measure what is missing."""
    content = {
        "schema": SCHEMA,
        "together": None if together is None else _together_fields(together),
        "packages": [_fields(one, commands.get(one.measured.package, "")) for one in answers],
        "not_checked": list(unchecked),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _together_fields(together: TogetherAnswer) -> dict[str, object]:
    advised = together.advised
    return {
        "answer": together.line,
        "verdict": advised.verdict.value,
        "against": [each.advisory.id for each in advised.against],
        "conflicts": [each.text for each in advised.conflicts],
        "conditions": conditions_fields(advised),
        "instead": dict(advised.instead),
    }


def _fields(one: UpgradeAnswers, command: str) -> dict[str, Any]:
    measured, advised = one.measured, one.advised
    return {
        "package": measured.package,
        "installed": measured.installed,
        "target": measured.target,
        "answer": upgrade_line(one),
        "verdicts": [verdict.value for verdict in one.deciding],
        "against": [each.advisory.id for each in (advised.against if advised else one.concerned)],
        "conflicts": [each.text for each in advised.conflicts] if advised else [],
        "conditions": conditions_fields(advised) if advised else [],
        "instead": dict(advised.instead) if advised else {},
        "measured": {
            "verdict": measured.verdict.value,
            "reason": measured.judgement.reason,
            "compared": measured.judgement.compared,
            "settings": list(measured.judgement.settings),
        },
        "measure": command,
    }
