"""Advisories in words, alike on every surface."""

from __future__ import annotations

from dsregress.advisories.advisory import Advisory, PartnerCondition, ReleaseRange, Remedy
from dsregress.advisories.job_facts import FACTS
from dsregress.advisories.osv import event_ranges
from dsregress.advisories.remedy_choice import is_another_job

#: Words with which a remedy's text begins if it is a whole request.
_VERBS = frozenset((
    *("use", "put", "give", "set", "call", "pass", "keep", "leave", "turn", "add", "drop", "go", "build", "make"),
    *("remove", "train", "load", "write", "do", "configure", "name", "install", "take"),
))  # fmt: skip


def range_text(one: ReleaseRange | PartnerCondition) -> str:
    """Return ``deepspeed 0.18.3 until 0.19.6``, by the releases that were run."""
    parts = [
        f"{introduced} until {fixed}" if fixed else f"since {introduced}"
        for introduced, fixed in event_ranges(one.affected, one.unaffected)
    ]
    return f"{one.package} {', '.join(parts)}"


def releases_of_advisory(advisory: Advisory) -> str:
    """Return the releases that an advisory is about, with those of other packages that it needs."""
    ranges = "; ".join(map(range_text, advisory.ranges))
    partners = " and ".join(map(range_text, advisory.partners))
    return f"{ranges} with {partners}" if partners else ranges


def upstream_links(advisory: Advisory) -> list[tuple[str, str]]:
    """Return the addresses upstream, each with its label: ``("fixed by", "https://...")``."""
    references = advisory.references
    labelled = {
        "reported": references.reported,
        "introduced by": references.introduced,
        "fixed by": references.fixed,
        "related": references.related,
    }
    return [(label, url) for label, found in labelled.items() for url in found]


def remedy_request(remedy: Remedy) -> str:
    """Return a remedy as a request: ``use torch 2.9.1``, ``train with ZeRO stage 3``, ``leave hpZ unset``."""
    text, factor, value = remedy.text, FACTS.get(remedy.fact), remedy.value
    if text.partition(" ")[0] in _VERBS:
        return text
    if text.startswith("no "):
        return f"train without {text.removeprefix('no ')}"
    if is_another_job(remedy):
        return f"train with {text}"
    if factor is not None and value is None and text == f"{factor.noun} not configured":
        return f"leave {factor.noun} unset"
    if factor is not None and value not in factor.words:
        switched = f"turn {factor.title} {'on' if value else 'off'}"
        return switched if isinstance(value, bool) else f"set {factor.title} to {value}"
    return f"use {text}"
