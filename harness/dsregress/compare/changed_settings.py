"""Changed defaults and new warnings. They are reported because they explain other findings; they never fail a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType

import msgspec

from dsregress.compare.comparison import Cells, ChangedSetting, DetailOf
from dsregress.compare.metrics import CONFIGURATION, WARNINGS
from dsregress.compare.result_pairs import Pair, finding
from dsregress.compare.setting_effects import reached_families
from dsregress.messages import SEMICOLON, joined, message, name_list, plural_message
from dsregress.model import Finding
from dsregress.probe.border.wire import Detail
from dsregress.wording.quantities import listing, plural, shortened

#: Details are read from files. Beyond this many different ones the rest are not read, and a note says so.
MOST_READ = 2_000

#: Prefix of the keys that the engine derives from its settings: they change with a release, and no user sets them.
_OBSERVED = "engine."

#: Last part of keys that record the writer of a configuration: they too change with a release.
_WRITTEN_BY = frozenset(("transformers_version", "peft_version"))


class _DetailDiff(msgspec.Struct, frozen=True):
    """The difference of two configurations. Values are spelled as JSON, so that they can be compared and grouped."""

    changed: tuple[tuple[str, str, str], ...] = ()  #: key, value, the baseline's value
    reached: tuple[frozenset[str], ...] = ()  #: of each of them: the families of metrics that it can move
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class ConfigurationChange(msgspec.Struct, frozen=True):
    """One part of the detail of one stack whose hash differs from the baseline's, and the workloads concerned."""

    part: str
    stack: str
    sha256: str
    baseline_sha256: str
    workloads: list[str]


def detail_changes(pairs: Iterable[Pair]) -> list[ConfigurationChange]:
    """Return the details that differ from the baseline's, by their hashes. Read none of them."""
    found: dict[tuple[str, str, str, str], ConfigurationChange] = {}
    for pair in pairs:
        if pair.baseline is None or pair.is_baseline:
            continue
        own, base = pair.result.detail_sha256, pair.baseline.detail_sha256
        if own == base:
            continue
        for part in (CONFIGURATION.name, WARNINGS.name):
            mine, theirs = own.get(part, ""), base.get(part, "")
            if mine == theirs or not mine or not theirs:
                continue
            key = (part, pair.stack, mine, theirs)
            change = found.get(key)
            if change is None:
                change = found[key] = ConfigurationChange(*key, [])
            change.workloads.append(pair.workload)
    return list(found.values())


def judge_changes(
    changes: Iterable[ConfigurationChange], cells: Cells, baseline: str, detail_of: DetailOf
) -> tuple[list[Finding], list[ChangedSetting], list[str]]:
    """Return one finding per stack and changed key (or new warning), with its workloads; the changed settings; and notes."""
    diffs = _DetailDiffs(cells, baseline, detail_of)
    order = {workload: at for at, workload in enumerate(cells.workloads)}
    keys: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    reached: dict[tuple[str, str, str], frozenset[str]] = {}
    warnings: dict[tuple[str, str], list[str]] = defaultdict(list)
    moved: dict[str, dict[str, dict[str, None]]] = {}
    first: dict[str, str] = {}
    for change in changes:
        different = diffs.of(change)
        if change.part == WARNINGS.name:
            for signature in different.added:
                warnings[change.stack, signature] += change.workloads
        elif different.changed or different.added or different.removed:
            for key, families in zip(different.changed, different.reached, strict=True):
                keys[(change.stack, *key)] += change.workloads
                reached[key] = reached.get(key, families) & families
            settings = moved.setdefault(change.stack, {"added": {}, "removed": {}})
            settings["added"].update(dict.fromkeys(different.added))
            settings["removed"].update(dict.fromkeys(different.removed))
            first.setdefault(change.stack, change.workloads[0])

    findings = [_changed_setting(sorted(having, key=order.__getitem__), *key) for key, having in keys.items()]
    findings += [
        _moved_settings(stack, first[stack], settings["added"], settings["removed"])
        for stack, settings in moved.items()
        if any(settings.values())
    ]
    findings += [_new_warning(sorted(having, key=order.__getitem__), *key) for key, having in warnings.items()]
    notes = []
    if diffs.unread:
        notes.append(f"the configurations and warnings of {plural(diffs.unread, 'cell')} were not compared")
    if diffs.missing:
        notes.append(
            f"{plural(diffs.missing, 'change')} of configuration or warnings cannot be shown: the file in "
            "results/details is missing or damaged; --fresh measures again"
        )
    return findings, _settings(keys, reached, cells), notes


def _settings(
    keys: Mapping[tuple[str, str, str, str], Sequence[str]],
    reached: Mapping[tuple[str, str, str], frozenset[str]],
    cells: Cells,
) -> list[ChangedSetting]:
    """Return the settings that a user can set. ``keys`` are the workloads by stack, key, value and the baseline's value;
    ``reached`` are the families of metrics that a change moves in all of its runs."""
    runs: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for (stack, key, value, baseline), having in keys.items():
        if key.startswith(_OBSERVED) or key.rpartition(".")[2] in _WRITTEN_BY:
            continue
        runs[key, value, baseline] += ((stack, workload) for workload in having)
    found = []
    for setting, changed in runs.items():
        stacks, workloads = {stack for stack, _ in changed}, {workload for _, workload in changed}
        others = (cells.stacks_of(workload) for workload in cells.workloads if workload not in workloads)
        has_contrast = any(not stacks.isdisjoint(other) for other in others)
        found.append(ChangedSetting(*setting, runs=tuple(changed), has_contrast=has_contrast, reaches=reached[setting]))
    return found


class _DetailDiffs:
    """Differences of details; each pair of contents is compared once."""

    def __init__(self, cells: Cells, baseline: str, detail_of: DetailOf) -> None:
        self.unread = 0
        self.missing = 0
        self._cells, self._baseline, self._detail_of = cells, baseline, detail_of
        self._known: dict[tuple[str, str, str], _DetailDiff] = {}

    def of(self, change: ConfigurationChange) -> _DetailDiff:
        """Return the difference of a change, empty if its details are missing or exceed `MOST_READ`; count those cells."""
        key = (change.part, change.sha256, change.baseline_sha256)
        if key not in self._known:
            if len(self._known) >= MOST_READ:
                self.unread += len(change.workloads)
                return _DetailDiff()
            detail, other = (self._detail(stack, change.workloads[0]) for stack in (change.stack, self._baseline))
            self.missing += detail is None or other is None
            diff = _configuration_diff if change.part == CONFIGURATION.name else _warnings_diff
            self._known[key] = diff(detail, other) if detail and other else _DetailDiff()
        return self._known[key]

    def _detail(self, stack: str, workload: str) -> Detail | None:
        cell = self._cells.of(stack, workload)
        return self._detail_of(cell.result) if cell is not None else None


def _configuration_diff(mine: Detail, theirs: Detail) -> _DetailDiff:
    new, old = mine.configuration, theirs.configuration
    common = (key for key in new if key in old and not _is_same_scalar(new[key], old[key]))
    spelled = ((key, _spell(new[key]), _spell(old[key])) for key in common)
    changed = tuple(change for change in spelled if change[1] != change[2])
    return _DetailDiff(
        changed,
        tuple(reached_families(key, new[key], old[key], new) for key, *_ in changed),
        tuple(sorted(set(new) - set(old))),
        tuple(sorted(set(old) - set(new))),
    )


def _warnings_diff(mine: Detail, theirs: Detail) -> _DetailDiff:
    return _DetailDiff(added=tuple(sorted(set(mine.warnings) - set(theirs.warnings))))


def _changed_setting(workloads: Sequence[str], stack: str, key: str, value: str, baseline: str) -> Finding:
    return finding(
        stack,
        workloads[0],
        metric=CONFIGURATION.name,
        phase=CONFIGURATION.finding_phase,
        kind="changed",
        value={key: json.loads(value)},
        baseline_value={key: json.loads(baseline)},
        ratio=None,
        unit="",
        significant=True,
        relevant=True,
        sentence=message(
            "{key} is {now}, was {before}", key=key, now=shortened(value, 60), before=shortened(baseline, 60)
        ),
        evidence=(_in(workloads),),
    )


def _moved_settings(stack: str, workload: str, added: Iterable[str], removed: Iterable[str]) -> Finding:
    new, gone = sorted(added), sorted(removed)
    parts = []
    if new:
        names = name_list(new)
        parts.append(
            plural_message("{count:,} new setting: {names}", "{count:,} new settings: {names}", len(new), names=names)
        )
    if gone:
        names = name_list(gone)
        parts.append(
            plural_message(
                "{count:,} setting removed: {names}", "{count:,} settings removed: {names}", len(gone), names=names
            )
        )
    return finding(
        stack,
        workload,
        metric=CONFIGURATION.name,
        phase=CONFIGURATION.finding_phase,
        kind="changed",
        value={"added": new, "removed": gone},
        baseline_value=None,
        ratio=None,
        unit="",
        significant=True,
        relevant=False,
        sentence=joined(SEMICOLON, parts),
    )


def _new_warning(workloads: Sequence[str], stack: str, signature: str) -> Finding:
    return finding(
        stack,
        workloads[0],
        metric=WARNINGS.name,
        phase=WARNINGS.finding_phase,
        kind="changed",
        value=signature,
        baseline_value=None,
        ratio=None,
        unit="",
        significant=True,
        relevant=True,
        sentence=message("new warning: {warning}", warning=shortened(signature)),
        evidence=(_in(workloads),),
    )


def _in(workloads: Sequence[str]) -> str:
    return f"in {listing(workloads, 3)}"


def _is_same_scalar(one: object, other: object) -> bool:
    """Return True if both are equal scalars of one type, so that nearly all settings need not be spelled. Floats are left
    out: equal ones may be spelled differently."""
    return type(one) is type(other) and isinstance(one, (str, int, NoneType)) and bool(one == other)


def _spell(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
