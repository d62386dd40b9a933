"""All stored results, and what each says of an advisory's symptom."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from packaging.version import Version

from dsregress.advisories.advisory import Advisory, MeasuredSymptom
from dsregress.advisories.matching import condition_shows, is_affected
from dsregress.advisories.measured_jobs import is_program, job_facts, program_facts
from dsregress.advisories.stated.observed_run import trained_tensors
from dsregress.compare.metrics import (
    BY_NAME,
    DEVICE_EXCESS,
    DEVICE_RETAINED,
    ERRORS,
    OUTCOME,
    SAVED_DIFFERENCE,
    TRAINING_DIFFERENCE,
)
from dsregress.compare.result_summary import ResultSummary, summarize
from dsregress.config.thresholds import Thresholds
from dsregress.model import Failed, Passed, Result
from dsregress.probe.adapters import PROGRAM
from dsregress.report.answer_matching import question_of
from dsregress.store import Store
from tests.paths import ROOT
from tests.unit.advisories.published import COMPARED
from tests.unit.advisories.table import Entry
from tests.unit.docs import findings_page, reproducer_page

_ERRORS = tuple(one.name for one in ERRORS)
_THRESHOLDS = Thresholds()

_OF_SEVERAL_ENGINES = ("resume", "destroyed_engine", "second_engine")

#: Metrics that compare with the baseline, since no truth says which is right.
_OF_BASELINE = (TRAINING_DIFFERENCE.name, SAVED_DIFFERENCE.name)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One stored result, as far as advisories are about it."""

    bundle: str
    stack: str
    versions: Mapping[str, str]
    workload: str
    facts: Mapping[str, Any]
    summary: ResultSummary

    @property
    def outcome(self) -> Passed | Failed | Any:
        return self.summary.result.outcome

    @property
    def name(self) -> str:
        return f"{self.bundle}: {self.stack}/{self.workload}"


@functools.cache
def records() -> tuple[Record, ...]:
    """Return all results of releases, not those of commits of a bisection."""
    return tuple(
        one for file in sorted((ROOT / "results").glob("*.jsonl.gz")) for one in _records_of(file.name) if one.versions
    )


def _records_of(bundle: str) -> Iterator[Record]:
    facts: dict[str, Mapping[str, Any]] = {}
    store = Store(str(ROOT / "results" / bundle))
    results = store.load().results
    for result in sorted(
        results, key=lambda one: not isinstance(one.outcome, Passed)
    ):  # one that ran shows what was in force
        cell = result.cell
        if cell.workload not in facts:
            facts[cell.workload] = _facts_of(result, store)
    for result in results:
        cell = result.cell
        yield Record(
            bundle=bundle,
            stack=cell.stack.id,
            versions={} if "+g" in cell.stack.id else cell.environment_stack.versions,
            workload=cell.workload,
            facts=facts[cell.workload],
            summary=summarize(result),
        )


def _facts_of(result: Result, store: Store) -> Mapping[str, Any]:
    workload, parameters = result.cell.workload, result.cell.parameters
    if not is_program(workload, parameters):
        return job_facts(workload, parameters)
    trained = trained_tensors(result.record) if result.record is not None else set()
    return program_facts(workload, parameters, trained, store.detail(result.detail_sha256))


@functools.cache
def _alike() -> Mapping[tuple[str, str, str, str], list[Record]]:
    """Records by bundle, workload, package and the rest of the stack: the releases of one package beside each other."""
    found: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for one in records():
        for package in one.versions:
            found[(one.bundle, one.workload, package, _rest(one, package))].append(one)
    return found


def _rest(one: Record, package: str) -> str:
    return ",".join(f"{name}={version}" for name, version in sorted(one.versions.items()) if name != package)


def symptoms_of(entry: Entry) -> tuple[MeasuredSymptom, ...]:
    """Return how stored results show an advisory; none if they cannot."""
    if entry.shown_by is not None:
        return (entry.shown_by,)
    found = []
    for name in entry.scripts:
        answer = reproducer_page.answers()[name]
        question = question_of(answer.metric)
        assert question is not None, name
        metrics = _ERRORS if question.metric in _ERRORS else (question.metric,)
        found.append(MeasuredSymptom(metrics=metrics, phase=question.phase, error=question.key))
    files = [f"{name}.py" for name in entry.by_hand] if not found else []
    for one in reproducer_page.known().without_script:
        if one.by_hand in files and one.shown_by is not None:
            found.append(MeasuredSymptom(metrics=one.shown_by.metrics, error=one.shown_by.error))
    return (*found, *entry.also_shown_by)


def family(metric: str) -> str:
    """Return the name of what a metric is about: several tell of one cause."""
    if metric in _ERRORS or metric == TRAINING_DIFFERENCE.name:
        return "training"
    return "memory" if metric.endswith("_bytes") and "collective" not in metric else metric


def meets(advisory: Advisory, facts: Mapping[str, Any]) -> bool:
    """Return True if all facts that an advisory is conditional on are known to be met."""
    return all(one.fact in facts and condition_shows(one, facts[one.fact]) is True for one in advisory.conditions)


def has_partners(advisory: Advisory, record: Record) -> bool:
    """Return True if the other packages of a record are known to be those that an advisory is conditional on."""
    return all(
        one.package in record.versions
        and is_affected(record.versions[one.package], one.affected, one.unaffected) is True
        for one in advisory.partners
    )


def claimed(advisory: Advisory, record: Record) -> bool | None:
    """Return True if an advisory calls the record's releases affected, False if it calls them unaffected."""
    answers = [
        is_affected(record.versions[one.package], one.affected, one.unaffected)
        for one in advisory.ranges
        if one.package in record.versions
    ]
    return True if True in answers else False if answers and set(answers) == {False} else None


def judged(advisory: Advisory, symptoms: Sequence[MeasuredSymptom], record: Record) -> bool | None:
    """Return True if a record shows one of the symptoms, False if it shows none of them; None if it cannot tell."""
    answers = [_judge(advisory, one, metric, record) for one in symptoms for metric in one.metrics]
    return True if True in answers else False if False in answers else None


def _judge(advisory: Advisory, symptom: MeasuredSymptom, metric: str, record: Record) -> bool | None:
    outcome = record.outcome
    if any(record.facts.get(fact) not in values for fact, values in symptom.where.items()):
        return None
    if metric == OUTCOME.name:
        if isinstance(outcome, Failed):
            return True if symptom.error in outcome.signature or symptom.error in outcome.detail else None
        return False if isinstance(outcome, Passed) else None
    if not isinstance(outcome, Passed):
        return None
    if metric in _ERRORS:
        distance = dict(record.summary.errors).get(metric)
        return None if distance is None or _is_of_a_program(advisory, record) else distance > 1
    if metric in _OF_BASELINE:
        return _differs(metric, record)
    return _is_more(advisory, symptom, metric, record)


def _is_of_a_program(advisory: Advisory, record: Record) -> bool:
    """Return True if the truth begins behind the fault: a program's is trained on the losses that its own Trainer gives."""
    of_trainer = any(one.package != "deepspeed" for one in advisory.ranges)
    return of_trainer and record.summary.result.cell.framework == PROGRAM


@functools.cache
def _differing(bundle: str) -> Mapping[tuple[str, str], set[str]]:
    """Return, of a comparison that the page of findings shows, the metrics of the findings on each cell; the baseline has
    none."""
    baselines = dict(COMPARED)
    if bundle not in baselines:
        return {}
    comparison = findings_page._compared(f"results/{bundle}", baselines[bundle])
    found: dict[tuple[str, str], set[str]] = {
        (stack, workload): set()
        for workload in comparison.cells.workloads
        for stack in comparison.cells.stacks_of(workload)
    }
    for one in comparison.findings:
        found[one.stack, one.workload].add(one.metric)
    return found


def _differs(metric: str, record: Record) -> bool | None:
    """Return True if a record trains or saves otherwise than that of the baseline."""
    if metric == SAVED_DIFFERENCE.name and not record.summary.saved:
        return None
    found = _differing(record.bundle).get((record.stack, record.workload))
    return None if found is None else metric in found


def _is_more(advisory: Advisory, symptom: MeasuredSymptom, metric: str, record: Record) -> bool | None:
    """Return True if it is more than ZeRO needs, or than in a release that is unaffected, on the same stack otherwise."""
    several = any(
        record.facts.get(fact) is True for fact in _OF_SEVERAL_ENGINES
    )  # of which ZeRO's arithmetic knows one
    if metric in (DEVICE_EXCESS.name, DEVICE_RETAINED.name) and not several:
        excesses = [one for one in record.summary.excesses if one.phase == symptom.phase and one.size > 0]
        if any(DEVICE_EXCESS.relevant(one.held, one.ideal, _THRESHOLDS) for one in excesses):
            return True
    metric = DEVICE_RETAINED.name if metric == DEVICE_EXCESS.name else metric
    reference = _reference(advisory, record)
    if reference is None or metric not in BY_NAME:
        return None
    own, other = record.summary.worst(), reference.summary.worst()
    name = BY_NAME[metric].flat_name(symptom.phase)
    if name not in own or name not in other:
        return None
    if own[name] <= other[name]:
        return False
    is_enough = advisory.in_some_jobs or BY_NAME[metric].relevant(own[name], other[name], _THRESHOLDS)
    return True if is_enough else None  # too little, in so small a job


def _reference(advisory: Advisory, record: Record) -> Record | None:
    """Return the nearest older record of an unaffected release, else the nearest newer one."""
    for one in advisory.ranges:
        alike = _alike().get((record.bundle, record.workload, one.package, _rest(record, one.package)), [])
        free = [
            other
            for other in alike
            if other.versions[one.package] in one.unaffected
            and other.versions[one.package] != record.versions[one.package]
            and isinstance(other.outcome, Passed)
        ]
        if free:
            own = Version(record.versions[one.package])
            order = sorted(free, key=lambda other: Version(other.versions[one.package]))
            older = [other for other in order if Version(other.versions[one.package]) < own]
            return older[-1] if older else order[0]
    return None
