"""The table of factors agrees with the scenario that it simplifies to, and reads as English."""

from __future__ import annotations

import pytest

from dsregress.probe import scenario
from dsregress.probe.factor import Factor, Fragment, need
from dsregress.probe.factor_files import decode_factor
from dsregress.probe.factors import BY_NAME, FACTORS
from dsregress.reproduce.factors import SIMPLEST, values_of
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")
LLAMA = scenario.load(ROOT / "scenarios" / "llama_zero3_backward.py")
#: Of the scenario, what is no factor: sizes, and what is done with a result.
NO_FACTORS = {"sequence_length", "micro_batch_size", "judged"}


def test_each_factors_first_value_is_that_of_the_simplest_scenario() -> None:
    base = {**MINIMAL.parameters, **MINIMAL.devices["cpu"]}
    assert {factor.name: factor.values[0] for factor in FACTORS} == {
        n: v for n, v in base.items() if n not in NO_FACTORS
    }


@pytest.mark.parametrize("variant", LLAMA.variant_ids)
def test_every_parameter_of_the_coverage_variants_is_a_factor(variant: str) -> None:
    changed = scenario.parse_variant(variant, LLAMA.parameters)
    assert changed.keys() <= BY_NAME.keys()


def test_values_of_a_cell_are_the_tables_and_its_own() -> None:
    assert values_of(BY_NAME["max_live_parameters"], {"max_live_parameters": 0}) == (30_000, 0)
    assert values_of(BY_NAME["zero_stage"], {}) == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("name", "shown", "hidden", "text"),
    [
        ("zero_stage", (1, 2), (0, 3), "ZeRO stage 1 or 2"),
        ("gradient_accumulation_steps", (2, 4), (1,), "gradient accumulation above 1"),
        ("gradient_accumulation_steps", (4,), (1, 2), "gradient accumulation 4"),
        ("model_outputs", ("all",), ("loss",), "a model that returns several tensors"),
        ("offload_optimizer", (True,), (False,), "offload of the optimizer"),
        ("gradient_clipping", (None,), (0.0, 1.0), "clipping not configured"),
        ("hpz_partition_size", (None,), (2,), "hpZ not configured"),
        ("overlap_comm", (None, False), (True,), "overlap_comm not configured or overlap_comm off"),
        ("hpz_partition_size", (2,), (None,), "hpZ partition of 2"),
        ("world_size", (2, 4), (1,), "ranks above 1"),
        (
            "backward_on",
            ("divided",),
            ("engine",),
            "engine.backward(scale_wrt_gas=False) on a loss that the caller divided",
        ),
        ("schedule", ("WarmupCosineLR",), (None,), "configured schedule WarmupCosineLR"),
        ("zero_grad", (True,), (False,), "optimizer.zero_grad() before each step"),
        ("forward_between", (False,), (True,), "no forward without gradients between forward and backward"),
    ],
)
def test_conditions_read_as_english(
    name: str, shown: tuple[object, ...], hidden: tuple[object, ...], text: str
) -> None:
    assert BY_NAME[name].text(shown, hidden) == text


def test_an_entry_of_a_file_is_a_factor() -> None:
    entry = {
        "title": "prefetching",
        "values": [None, 4096],
        "words": [[None, "no prefetching"]],
        "needs": [{"other": "zero_stage", "needed": [3], "values": [4096]}],
        "script": {
            "at": {"engine": "engine.prefetch()", "after_engine": ["if ranks:", "    pass"]},
            "imports": ["time"],
        },
    }
    assert decode_factor("prefetch", "sharding", entry) == Factor(
        name="prefetch",
        title="prefetching",
        group="sharding",
        values=(None, 4096),
        words={None: "no prefetching"},
        needs=(need("zero_stage", 3, by=(4096,)),),
        script=Fragment(at={"engine": "engine.prefetch()", "after_engine": "if ranks:\n    pass"}, imports=("time",)),
    )


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"title": "prefetching", "values": [1], "titel": ""}, "no such field: titel"),
        ({"title": "prefetching", "values": 1}, "values is 1, not a list"),
        ({"title": "prefetching", "values": [1], "counted": 1}, "counted is 1, not of type bool"),
        ({"title": "prefetching", "values": [1], "place": True}, "place is True, not of type int"),
        ({"title": "prefetching", "values": [1], "needs": ["zero_stage"]}, "'zero_stage' is not an object"),
        ({"title": "prefetching", "values": [1], "script": {"at": {"noon": ""}}}, "a script has no such moment: noon"),
        ({"title": "prefetching", "values": [1], "script": {"at": {"engine": [1]}}}, "not a list of strings"),
        ({"title": "prefetching"}, "missing 1 required keyword-only argument: 'values'"),
    ],
)
def test_an_entry_that_is_no_factor_is_refused(entry: dict[str, object], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        decode_factor("prefetch", "sharding", entry)
