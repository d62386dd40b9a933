"""``docs/seeded-faults.md``: what was seen of each seeded fault."""

from __future__ import annotations

from collections.abc import Iterator

from tests.paths import ROOT
from tests.programs.truth.seeded import seeded_faults
from tests.programs.truth.seeded.seeded_faults import Fault, Seen
from tests.unit.docs import templates

TEMPLATE = ROOT / "docs" / "seeded-faults.md.jinja"
PAGE = templates.page_of(TEMPLATE)

#: Begins the name of a fault of a published list.
_LISTS = ("TTrace", "TrainCheck")

#: Three faults of TrainCheck's list are those of broken hardware.
_HARDWARE = "pytorch-84803"


def written() -> str:
    """The page."""
    return templates.rendered(
        TEMPLATE, {"listed": listed, "matrix": matrix, "share": share, "seeded": seeded, "found": found}
    )


def _of(which: str) -> Iterator[tuple[Fault, Seen]]:
    seen = seeded_faults.seen()
    for fault in seeded_faults.faults():
        if fault.of.startswith(which):
            yield fault, seen.get(fault.key, Seen())


def listed(which: str) -> str:
    """The table of a published list."""
    lines = ["| fault | training | found as | named |", "|---|---|---|---|"]
    for fault, seen in _of(which):
        found = seen.found if seen.is_right(fault) else f"{seen.found}, not named: {fault.missed}"
        if not seen.found:
            found = f"not {'found' if fault.kind else 'seeded'}: {fault.missed}"
        name = f"`{seen.named}`" if seen.named and seen.is_right(fault) else "-"
        lines.append(f"| {fault.of.removeprefix(which).strip()} | {fault.kind or '-'} | {found} | {name} |")
    return "\n".join(lines)


def share(which: str, *, everywhere: bool) -> str:
    """How many faults of a list are found and named as they should be: wherever they were seeded, or somewhere."""
    by_fault: dict[str, list[bool]] = {}
    for fault, seen in _of(which):
        if _HARDWARE not in fault.of:
            by_fault.setdefault(fault.of, []).append(seen.is_right(fault))
    found = sum(all(right) if everywhere else any(right) for right in by_fault.values())
    return f"{found} of {len(by_fault)}"


def _seeded() -> list[tuple[Fault, Seen]]:
    return [one for one in _of("") if not one[0].of.startswith(_LISTS)]


def seeded() -> int:
    """The number of cells of the matrix in which a fault was seeded."""
    return len(_seeded())


def found() -> int:
    """The number of those in which it was found and named."""
    return sum(seen.is_right(fault) for fault, seen in _seeded())


def matrix() -> str:
    """What is named of each fault in each kind of training."""
    faults = list(dict.fromkeys(fault.of for fault, _ in _seeded()))
    kinds = list(dict.fromkeys(fault.kind for fault, _ in _seeded()))
    cells = {(fault.kind, fault.of): _cell(fault, seen) for fault, seen in _seeded()}
    lines = [f"| training | {' | '.join(faults)} |", "|---" * (1 + len(faults)) + "|"]
    for kind in kinds:
        lines.append(f"| {kind} | {' | '.join(cells.get((kind, fault), '-') for fault in faults)} |")
    return "\n".join(lines)


def _cell(fault: Fault, seen: Seen) -> str:
    if not seen.is_right(fault):
        return "not found"
    return f"{seen.found}: `{seen.named}`" if seen.named else seen.found
