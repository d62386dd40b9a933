"""The advisories for the site's script, which puts a reader's job to them by the rules of `dsregress.advisories`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dsregress.advisories.advisory import Advisory, AdvisoryKind, FactCondition, Remedy, Ruling
from dsregress.advisories.effects import decides, ends_the_job, is_cost, is_grave
from dsregress.advisories.job_facts import CHOSEN, COMMON_FACTS, CONSEQUENCES, FACTS, STAND_INS, USUAL, OneOf
from dsregress.advisories.matching import FRAMEWORKS, condition_text, known_packages
from dsregress.advisories.oldest_run import oldest_run
from dsregress.advisories.remedy_choice import is_another_job
from dsregress.model import AXES
from dsregress.report import urls
from dsregress.report.advisory_words import remedy_request
from dsregress.versions.declared_requirements import UNDECLARED, known_requirements
from dsregress.versions.releases import known_releases
from dsregress.versions.yanked import yanked_releases


def audit_data(advisories: Sequence[Advisory]) -> dict[str, Any]:
    """Return what the script needs of the advisories, and of the facts that they name."""
    used = [one for one in advisories if not one.withdrawn]
    named = dict.fromkeys(condition.fact for one in used for condition in one.conditions)
    return {
        "advisories": [_advisory_json(one) for one in used],
        "facts": {name: _fact_json(name) for name in named if name in FACTS},
        "consequences": [
            {
                "fact": one.fact,
                "of": one.of,
                "but": one.but,
                "then": {name: fact_json(value) for name, value in one.settled.items()},
                "same": one.same,
            }
            for one in CONSEQUENCES
        ],
        "stand_ins": msgspec.to_builtins(STAND_INS),
        "chosen": msgspec.to_builtins(CHOSEN),
        "usual": msgspec.to_builtins(USUAL),
        "common": COMMON_FACTS,
        "frameworks": FRAMEWORKS,
        "packages": sorted(known_packages(used)),
        "axes": AXES,
        "requirements": known_requirements(),
        "oldest_run": oldest_run(),
        "yanked": {name: [*found] for name, found in yanked_releases().items()},
        "bounds": msgspec.to_builtins(UNDECLARED),
        "releases": {name: known_releases(name) for name in AXES if name not in known_requirements()},
    }


def fact_json(value: Any) -> Any:
    """Return a fact's value as the script has it."""
    return {"one_of": list(value.values)} if isinstance(value, OneOf) else value


def _advisory_json(one: Advisory) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": one.title,
        "page": urls.advisory_page(one.id),
        "sees": one.sees,
        "decides": decides(one),
        "is_cost": is_cost(one),
        "is_fault": one.ruling is Ruling.FAULT,
        "is_improvement": one.ruling is Ruling.IMPROVEMENT,
        "kind": one.kind.value,
        "is_leak": one.kind is AdvisoryKind.LEAKS,
        "is_default": one.kind is AdvisoryKind.DEFAULT_CHANGED,
        "ends_the_job": ends_the_job(one),
        "is_grave": is_grave(one),
        "ranges": msgspec.to_builtins(one.ranges),
        "partners": [
            {"package": each.package, "affected": each.affected, "unaffected": each.unaffected} for each in one.partners
        ],
        "conditions": [_condition_json(each) for each in one.conditions],
        "remedies": [_remedy_json(each) for each in one.remedies],
    }


def _condition_json(one: FactCondition) -> dict[str, Any]:
    return {
        "fact": one.fact,
        "shown": one.shown,
        "hidden": one.hidden,
        "unknown": one.unknown,
        "above": one.above,
        "others": one.others,
        "text": condition_text(one),
    }


def _remedy_json(one: Remedy) -> dict[str, Any]:
    return {
        "package": one.package,
        "version": one.version,
        "fact": one.fact,
        "value": one.value,
        "request": remedy_request(one),
        "is_another_job": is_another_job(one),
    }


def _fact_json(name: str) -> dict[str, Any]:
    factor = FACTS[name]
    return {
        "title": factor.title,
        "noun": factor.noun,
        "counted": factor.counted,
        "words": list(factor.words.items()),
        "values": factor.values,
    }
