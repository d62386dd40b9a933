"""Changed defaults and new warnings: told as such, so that they are no mystery, and never failing by themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from harness.compare.comparison import DetailOf
from harness.compare.pairs import Pair
from harness.compare.wording import listing, plural, shortened
from harness.model import Finding, Result
from harness.probe.wire import Detail

#: Details are read from files. Beyond this many different ones the rest is not looked at, and a note says so.
MOST_READ = 2_000


class _Differences(msgspec.Struct, frozen=True):
    """One configuration against another. Values are spelled as JSON, so that they can be told apart and grouped."""

    changed: tuple[tuple[str, str, str], ...] = ()  #: key, value, the baseline's value
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def judge(pairs: Iterable[Pair], detail_of: DetailOf) -> tuple[list[Finding], list[str]]:
    """One finding per stack and changed key (or new warning), naming the workloads that have it; and notes."""
    diffs = _Differ(detail_of)
    keys: dict[tuple[str, str, str, str], list[Pair]] = defaultdict(list)
    warnings: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    moved: dict[str, dict[str, dict[str, None]]] = {}
    first: dict[str, Pair] = {}
    for pair in pairs:
        base = pair.baseline
        if base is None or pair.is_baseline:
            continue
        config = diffs.of("configuration", pair.result, base, _configuration)
        if config.changed or config.added or config.removed:
            for change in config.changed:
                keys[(pair.stack, *change)].append(pair)
            told = moved.setdefault(pair.stack, {"added": {}, "removed": {}})
            told["added"].update(dict.fromkeys(config.added))
            told["removed"].update(dict.fromkeys(config.removed))
            first.setdefault(pair.stack, pair)
        for signature in diffs.of("warnings", pair.result, base, _warnings).added:
            warnings[pair.stack, signature].append(pair)
    findings = [_key(where, *change) for change, where in keys.items()]
    findings += [
        _moved(first[stack], told["added"], told["removed"]) for stack, told in moved.items() if any(told.values())
    ]
    findings += [_warning(where, signature) for (_, signature), where in warnings.items()]
    notes = []
    if diffs.unread:
        notes.append(f"the configurations and warnings of {plural(diffs.unread, 'cell')} were not looked at")
    if diffs.missing:
        notes.append(
            f"{plural(diffs.missing, 'change')} of configuration or warnings cannot be told: the file in "
            "results/details is missing or damaged; --fresh measures again"
        )
    return findings, notes


class _Differ:
    """Differences of details, each pair of contents looked at once."""

    def __init__(self, detail_of: DetailOf) -> None:
        self.detail_of = detail_of
        self.unread = 0
        self.missing = 0
        self._known: dict[tuple[str, str, str], _Differences] = {}
        self._details: dict[int, Detail | None] = {}

    def of(
        self, part: str, mine: Result, theirs: Result, differ: Callable[[Detail, Detail], _Differences]
    ) -> _Differences:
        own, base = mine.detail_sha256.get(part, ""), theirs.detail_sha256.get(part, "")
        if own == base or not own or not base:
            return _Differences()
        key = (part, own, base)
        if key not in self._known:
            if len(self._known) >= MOST_READ:
                self.unread += 1
                return _Differences()
            detail, other = self._read(mine), self._read(theirs)
            self.missing += detail is None or other is None
            self._known[key] = differ(detail, other) if detail and other else _Differences()
        return self._known[key]

    def _read(self, result: Result) -> Detail | None:
        if id(result) not in self._details:
            if len(self._details) > 64:  # each can be large; the results of one workload come together
                self._details.clear()
            self._details[id(result)] = self.detail_of(result)
        return self._details[id(result)]


def _configuration(mine: Detail, theirs: Detail) -> _Differences:
    new, old = mine.configuration, theirs.configuration
    spelled = ((key, _spell(new[key]), _spell(old[key])) for key in new if key in old)
    return _Differences(
        tuple(change for change in spelled if change[1] != change[2]),
        tuple(sorted(set(new) - set(old))),
        tuple(sorted(set(old) - set(new))),
    )


def _warnings(mine: Detail, theirs: Detail) -> _Differences:
    return _Differences(added=tuple(sorted(set(mine.warnings) - set(theirs.warnings))))


def _key(where: Sequence[Pair], stack: str, key: str, value: str, baseline: str) -> Finding:
    return where[0].finding(
        metric="configuration",
        phase="init",
        kind="changed",
        value={key: json.loads(value)},
        baseline_value={key: json.loads(baseline)},
        ratio=None,
        unit="",
        significant=True,
        relevant=True,
        message=f"{key} is {shortened(value, 60)}, was {shortened(baseline, 60)}",
        evidence=(_workloads(where),),
    )


def _moved(pair: Pair, added: Iterable[str], removed: Iterable[str]) -> Finding:
    new, gone = sorted(added), sorted(removed)
    parts = [
        f"{plural(len(names), 'setting')} {word}: {listing(names)}"
        for names, word in ((new, "new"), (gone, "gone"))
        if names
    ]
    return pair.finding(
        metric="configuration",
        phase="init",
        kind="changed",
        value={"added": new, "removed": gone},
        baseline_value=None,
        ratio=None,
        unit="",
        significant=True,
        relevant=False,
        message="; ".join(parts),
    )


def _warning(where: Sequence[Pair], signature: str) -> Finding:
    return where[0].finding(
        metric="warnings",
        phase="init",
        kind="changed",
        value=signature,
        baseline_value=None,
        ratio=None,
        unit="",
        significant=True,
        relevant=True,
        message=f"new warning: {shortened(signature)}",
        evidence=(_workloads(where),),
    )


def _workloads(where: Sequence[Pair]) -> str:
    return f"in {listing([pair.workload for pair in where], 3)}"


def _spell(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
