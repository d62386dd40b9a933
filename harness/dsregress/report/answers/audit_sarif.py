"""The answer to ``audit`` as SARIF 2.1.0, which code scanning reads: a rule for each advisory, and a result for each that
concerns the job, or may.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A ``kind`` that is not ``fail`` has the level
``none`` (section 3.27.9): ``review`` is a question to the reader, ``open`` is not known, ``informational`` is a cost or a
change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from dsregress import __version__
from dsregress.advisories.advisory import Advisory, Ruling
from dsregress.advisories.auditing import Audit, StatedJob
from dsregress.advisories.matching import Matched, condition_text
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import UpgradeAnswer
from dsregress.report.advisory_words import releases_of_advisory, remedy_request
from dsregress.report.answers.audit_answer import audit_headline
from dsregress.report.verdict_words import upgrade_headline

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_FAIL, _REVIEW, _OPEN, _INFORMATIONAL = "fail", "review", "open", "informational"


def audit_sarif(audit: Audit, job: StatedJob, files: Sequence[str]) -> str:
    """Return the answer for a job as it is. ``files`` have its packages."""
    results = [
        *_results(audit.concerned, _FAIL, job, files),
        *_results((*audit.notes, *audit.costs), _INFORMATIONAL, job, files),
        *_results((*audit.usual, *(each for one in audit.questions for each in one.matched)), _REVIEW, job, files),
        *_results(audit.unknown, _OPEN, job, files),
    ]
    return _log(audit_headline(audit), results, audit.ignored)


def upgrade_sarif(answer: UpgradeAnswer, audit: Audit, old: StatedJob, new: StatedJob, files: Sequence[str]) -> str:
    """Return the answer for an upgrade. ``audit`` is of the new job; ``files`` have the packages of the old one."""
    conditions = (one.matched for one in answer.conditions)
    results = [
        *_results((*answer.against, *conditions, *answer.kept), _FAIL, new, files),
        *_results((*answer.changes, *answer.costs), _INFORMATIONAL, new, files),
        *_results(answer.depends, _REVIEW, new, files),
        *_results(answer.not_run, _OPEN, new, files),
    ]
    return _log(upgrade_headline(answer, old, new), results, audit.ignored)


def _log(headline: str, results: Sequence[dict[str, Any]], ignored: Sequence[str]) -> str:
    advisories = {one.id: one for one in read_advisories()}
    results = [*results, *(_ignored_result(advisories[id]) for id in ignored)]
    ids = dict.fromkeys(one["ruleId"] for one in results)
    driver = {"name": "dsregress", "version": __version__, "rules": [_rule(advisories[id]) for id in ids]}
    run = {"tool": {"driver": driver}, "results": results, "properties": {"answer": headline}}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(one: Advisory) -> dict[str, Any]:
    remedies = "; or ".join(remedy_request(each) for each in one.remedies) or "none is known"
    upstream = (*one.references.fixed, *one.references.reported, *one.references.introduced)
    return {
        "id": one.id,
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": " ".join(filter(None, (f"{one.title}.", one.detail, one.size)))},
        "help": {"text": f"Releases: {releases_of_advisory(one)}. Remedy: {remedies}."},
        **({"helpUri": upstream[0]} if upstream else {}),
        "defaultConfiguration": {"level": _level(one)},
        "properties": {"tags": [one.kind.value, one.ruling.value]},
    }


def _level(one: Advisory) -> str:
    return "error" if one.ruling is Ruling.FAULT else "warning"


def _results(found: Iterable[Matched], kind: str, job: StatedJob, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    for one in found:
        advisory = one.advisory
        releases = [f"{name} {job.versions[name]}" for name in advisory.packages if name in job.versions]
        yield {
            "ruleId": advisory.id,
            "kind": kind,
            "level": _level(advisory) if kind == _FAIL else "none",
            "message": {"text": _result_text(one)},
            "locations": list(_locations(one, job, files)),
            "partialFingerprints": {"advisoryAndReleases/v1": ", ".join((advisory.id, *releases))},
        }


def _result_text(one: Matched) -> str:
    parts = [*map(condition_text, one.open), *(f"some releases of {name}" for name in one.open_packages)]
    return ". ".join((
        one.advisory.title,
        *([f"You see: {one.advisory.sees}"] if one.advisory.sees else []),
        *([f"Not stated: {', '.join(parts)}"] if parts else []),
        *([f"Not run: {', '.join(one.not_run)}"] if one.not_run else []),
    ))  # fmt: skip


def _locations(one: Matched, job: StatedJob, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the files that state why it concerns the job: those of its packages, and of the facts that decide."""
    facts = (job.facts[each.fact].source for each in one.advisory.conditions if each.fact in job.facts)
    stated = (source.partition(": ")[0] for source in facts)
    for file in dict.fromkeys((*files, *(each for each in stated if not each.startswith("--")))):
        yield {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}}}


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _ignored_result(one: Advisory) -> dict[str, Any]:
    return {
        "ruleId": one.id,
        "message": {"text": one.title},
        "suppressions": [{"kind": "external"}],
    }
