"""The answer of ``upgrade --measure`` as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.bisect.package_search import MeasuredUpgrade
from dsregress.model import Verdict
from dsregress.wording.quantities import listing, plural

_SEEN = {Verdict.BAD: "worse", Verdict.GOOD: "not worse", Verdict.UNKNOWN: "no answer"}


def package_text(upgrade: MeasuredUpgrade) -> str:
    """Return the answer: whether the upgrade is worse on the workload, and by which packages."""
    return "".join(f"{line}\n" for line in _lines(upgrade))


def _lines(upgrade: MeasuredUpgrade) -> Iterator[str]:
    changes = listing([one.text for one in upgrade.changes])
    if upgrade.worst is None:
        yield f"measured: nothing is worse on {upgrade.workload} with {changes}"
        return
    yield f"measured: worse on {upgrade.workload}: {upgrade.worst.message}"
    if upgrade.smallest is None:
        yield f"  it is {changes}, the one package that changes"
        return
    smallest = upgrade.smallest
    others = [one.package for one in upgrade.changes if one not in smallest.needed]
    if others:
        yield f"  it is {listing([one.text for one in smallest.needed])}, with {listing(others)} as installed"
    else:
        yield f"  it takes all {plural(len(upgrade.changes), 'change')}: {changes}"
    if smallest.unseparated:
        yield f"  not told apart: {listing([one.package for one in smallest.unseparated])}, without which it gives no answer"
    for trial in smallest.trials:
        seen = ": ".join(filter(None, (_SEEN[trial.verdict], trial.text)))
        yield f"    with {listing([one.text for one in trial.changes])}: {seen}"
