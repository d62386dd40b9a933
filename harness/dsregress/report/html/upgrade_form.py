"""The question on the first page: may I upgrade from one release to another? A script answers as `dsregress audit` does, in
the reader's browser, for the job that the reader states."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.job_facts import COMMON_FACTS, FACTS
from dsregress.advisories.matching import known_packages, known_versions, parsed
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.probe.factor import Factor, among
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.audit_data import audit_data
from dsregress.report.plain_text import plain
from dsregress.report.verdict_words import upgrade_headline
from dsregress.versions.releases import parsed_version


class FormField(msgspec.Struct, frozen=True):
    """A field of the form, in which the reader chooses the value of a fact."""

    fact: str
    title: str
    values: tuple[tuple[str, str], ...]  #: in JSON, and in words


class UpgradeForm(msgspec.Struct, frozen=True, kw_only=True):
    """The reader's choices. Empty if no advisory is about the package that varies, or it has one release."""

    data: str = ""  #: the address of the script with the data
    package: str = ""
    releases: tuple[str, ...] = ()  #: the newest first
    old: str = ""  #: the first choices, here and below
    new: str = ""
    beside: str = ""  #: the packages beside it: ``torch==2.13.0 transformers==4.57.6``
    fields: tuple[FormField, ...] = ()
    answer: str = ""  #: to the first choices


def upgrade_form(context: ReportContext) -> UpgradeForm:
    """Return the form, which first asks about the way from the baseline to the newest release."""
    advisories, package = read_advisories(), context.only_axis
    releases = [one.versions[package] for one in context.comparison.stacks] if package else []
    if package not in known_packages(advisories) or len(releases) < 2 or not all(map(parsed_version, releases)):
        return UpgradeForm()
    baseline = context.stacks[context.comparison.baseline].versions
    beside = {name: version for name, version in baseline.items() if name != package and parsed_version(version)}
    old = StatedJob(versions={**beside, package: baseline[package]}, facts={})
    new = old.going_to({package: max(releases, key=parsed)})
    known = {*releases, *known_versions(advisories, package)}
    return UpgradeForm(
        data=urls.UPGRADE_DATA,
        package=package,
        releases=tuple(sorted(known, key=parsed, reverse=True)),
        old=old.versions[package],
        new=new.versions[package],
        beside=" ".join(f"{name}=={plain(version)}" for name, version in beside.items()),
        fields=tuple(_field(FACTS[name]) for name in COMMON_FACTS),
        answer=upgrade_headline(judge_upgrade(advisories, old.job, new.job), old, new),
    )


def upgrade_data() -> bytes:
    """Return the script with the data."""
    return b"dsregressUpgrade(" + msgspec.json.encode(audit_data(read_advisories())) + b")\n"


def _field(factor: Factor) -> FormField:
    values: list[Any] = []
    for value in (*factor.known, *factor.explored):
        if value != "" and not among(value, values):  # nobody can say an empty one
            values.append(value)
    return FormField(
        factor.name,
        f"{factor.noun[:1].upper()}{factor.noun[1:]}",
        tuple((msgspec.json.encode(value).decode(), factor.text((value,))) for value in values),
    )
