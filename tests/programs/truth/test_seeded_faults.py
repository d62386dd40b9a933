"""Known faults, seeded into a small program on CPU ranks: each is found within its first steps and named, or known to be
missed. What is seen is kept for docs/seeded-faults.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import NO_MODULE, Numerics  # noqa: E402
from dsregress.probe.oracles import truth  # noqa: E402
from tests.golden_files import Golden  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from tests.programs.truth.seeded import seeded_faults  # noqa: E402
from tests.programs.truth.seeded.seeded_faults import Fault, Seen  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

#: What the faults are seeded into is that of these releases.
_SINCE = "2.13"


def invariants(numerics: Numerics) -> Iterator[Seen]:
    """What is wrong with no reference."""
    words = {
        "gradients": "gradients of the step before",
        "nothing": "steps that move nothing",
        "frozen": "frozen weights that move",
    }
    if numerics.dropping:
        yield Seen("dropout in an evaluation", numerics.dropping[0])
    for invariant, names in numerics.broken.items():
        yield Seen(words[invariant], names[0])
    if numerics.replicas_apart:
        yield Seen("replicas apart", next(iter(numerics.apart_in), ""))


def judged(numerics: Numerics) -> Seen:
    """What a reader of the finding sees first."""
    module = "" if numerics.first_module.startswith(NO_MODULE) else numerics.first_module
    what, _, _ = numerics.gradient_apart.partition(" of ")
    weight = re.match(r"furthest from the truth: (\S+) after step", numerics.note)
    if module:
        kind = next((word for word in ("forward", "backward") if f", {word}, " in module), "gradient of its weight")
        return Seen(kind, module.split(",")[0])
    if (numerics.parameter_error or 0) > 1 and numerics.gradient_apart:
        return Seen(what.removeprefix("the "), "")
    if (numerics.parameter_error or 0) > 1 and weight:
        return Seen("update", weight[1])
    if (numerics.gradient_norm_error or 0) > 1:
        return Seen("gradient norm", "")
    return Seen("loss" if truth.worst(numerics) > 1 else "", "")


_OF_EACH = seeded_faults.one_of_each()


def _marked(fault: Fault) -> object:
    return pytest.param(fault, id=fault.key, marks=() if fault in _OF_EACH else pytest.mark.nightly)


@pytest.mark.parametrize("fault", [_marked(one) for one in seeded_faults.faults() if one.kind])
def test_a_seeded_fault_is_found_and_named_unless_it_is_known_to_be_missed(
    fault: Fault, folder: Path, golden: Golden
) -> None:
    if not torch.__version__.startswith(_SINCE):
        pytest.skip(f"the faults are those of torch {_SINCE}")
    if fault.kind.startswith("ZeRO"):
        pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(fault.program())
    numerics = passed(ran(folder, "cpu", fault.ranks, fault.line)).ranks[0].numerics
    assert numerics is not None
    found = judged(numerics)
    if not found.named:
        found = next(invariants(numerics), found)
    if golden.accept:
        seeded_faults.keep(fault.key, found)
    said = numerics.note, numerics.gradient_apart, numerics.first_module, numerics.apart_in
    assert found == seeded_faults.seen()[fault.key], said
    assert found.is_right(fault) or fault.missed, (found, said)
