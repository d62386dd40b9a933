"""How a scenario is declared, resolved and spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("hypothesis")  # not in a measured environment
from hypothesis import given
from hypothesis import strategies as st

from dsregress.probe import scenario as scenarios
from dsregress.probe.scenario import (
    Scenario,
    ScenarioError,
    grid,
    one_by_one,
    parse_variant,
    variant_id,
)

PARAMETERS = {"zero_stage": 3, "dtype": "bf16", "clip": 1.0, "offload": False, "accumulation": None}


def declared(**changes: object) -> Scenario:
    fields = {
        "version": 1,
        "summary": "",
        "framework": "x",
        "parameters": PARAMETERS,
        "devices": {"cpu": {"zero_stage": 1}, "sim": {}},
        "variants": one_by_one(dtype=("fp32",)),
    }
    return Scenario(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_variant_overrides_the_device_which_overrides_the_scenario() -> None:
    resolved = declared(devices={"cpu": {"zero_stage": 1, "dtype": "fp16"}}).resolve("dtype=fp32", "cpu")
    assert (resolved["zero_stage"], resolved["dtype"]) == (1, "fp32")


def test_a_variant_that_is_not_declared_can_be_spelled_out() -> None:
    assert declared().resolve("zero_stage=2,offload=true", "sim") == {**PARAMETERS, "zero_stage": 2, "offload": True}


def test_a_whole_number_may_be_written_with_an_exponent() -> None:
    assert parse_variant("zero_stage=1e6", PARAMETERS) == {"zero_stage": 1_000_000}
    assert parse_variant(f"zero_stage={2**53 + 1}", PARAMETERS) == {"zero_stage": 2**53 + 1}


@pytest.mark.parametrize("value", [1, 0.5, True, False, "fp32", "inf", None])
def test_a_value_is_read_back_where_the_parameter_has_none(value: object) -> None:
    (read,) = parse_variant(variant_id({"accumulation": value}), PARAMETERS).values()
    assert (read, type(read)) == (value, type(value))


CYCLE: dict[str, object] = {}
CYCLE["inner"] = [CYCLE]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"a": CYCLE}}, "nested too deep, or a part of itself"),
        ({"parameters": {"a": {1: 2}}}, "parameters: a: not a name: 1"),
        ({"parameters": {"a": {"b": {3}}}}, "parameters: a.b: not a plain JSON value but of type set"),
        ({"parameters": {"a": float("nan")}}, "parameters: a: not a finite number: nan"),
        ({"parameters": {"a": 1 << 70}}, "parameters: a: a whole number of more than 64 bits"),
        ({"parameters": {"a": "x\0"}}, "parameters: a: a character that cannot be printed: 'x\\x00'"),
        ({"devices": {"cpu": {"zero_stage": print}}}, "devices: cpu.zero_stage: not a plain JSON value but of type"),
        ({"variants": ({"dtype": ["\ud800"]},)}, "variants: dtype: a character that cannot be printed: '\\ud800'"),
        ({"remedies": {"x": {"dtype": CYCLE}}}, "nested too deep, or a part of itself"),
    ],
)  # fmt: skip
def test_parameters_are_plain_json_values(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        declared(**changes)
    assert message in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("stage=2", "no such variant: stage=2 ('stage' is not a parameter of this scenario)"),
        ("zero_stage=two", "no such variant: zero_stage=two ('two' is not of type int)"),
        ("offload=maybe", "no such variant: offload=maybe ('maybe' is not of type bool)"),
        ("zero_stage=2.5", "no such variant: zero_stage=2.5 ('2.5' is not of type int)"),
        ("zero_stage=1e400", "no such variant: zero_stage=1e400 ('1e400' is not of type int)"),
        (f"zero_stage={10**20}", f"no such variant: zero_stage={10**20} ('{10**20}' is not of type int)"),
        ("clip=nan", "no such variant: clip=nan ('nan' is not of type float)"),
        ("clip=inf", "no such variant: clip=inf ('inf' is not of type float)"),
    ],
)
def test_a_variant_that_makes_no_sense_says_which_part(variant: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        declared().resolve(variant, "sim")
    assert str(error.value) == message


def test_a_device_that_it_does_not_run_on_is_refused_with_those_it_does() -> None:
    with pytest.raises(ScenarioError, match=r"does not run on cuda \(it runs on: cpu, sim\)"):
        declared().resolve("base", "cuda")


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": {"tpu": {}}},
        {"devices": {"cpu": {"x": 1}}},
        {"variants": ({"x": 1},)},
        {"remedies": {"try x": {"x": 1}}},
    ],
)
def test_a_declaration_with_unknown_names_does_not_load(changes: dict[str, object]) -> None:
    with pytest.raises(ScenarioError):
        declared(**changes)


@given(st.fixed_dictionaries({}, optional={
    "zero_stage": st.integers(0, 3), "dtype": st.sampled_from(["fp32", "bf16"]),
    "clip": st.floats(0.1, 10), "offload": st.booleans(),
}))  # fmt: skip
def test_a_spelled_variant_reads_back_as_it_was(changes: dict[str, object]) -> None:
    assert parse_variant(variant_id(changes), PARAMETERS) == changes


def test_a_grid_holds_every_combination() -> None:
    assert [variant_id(v) for v in grid(a=(1, 2), b=(True,))] == ["a=1,b=true", "a=2,b=true"]


def test_a_file_without_a_scenario_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("SCENARIO = 3\n")
    with pytest.raises(ScenarioError, match=r"x\.py: has no SCENARIO"):
        scenarios.load(tmp_path / "x.py")


def test_a_file_that_does_not_run_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1 / 0\n")
    with pytest.raises(ScenarioError, match=r"x\.py: cannot be loaded: ZeroDivisionError"):
        scenarios.load(tmp_path / "x.py")


@pytest.mark.parametrize("leaves", ["SystemExit(0)", "SystemExit()", "BaseException('gone')", "GeneratorExit"])
def test_a_file_that_leaves_instead_of_declaring_is_named_in_the_error(tmp_path: Path, leaves: str) -> None:
    (tmp_path / "x.py").write_text(f"raise {leaves}\n")
    with pytest.raises(ScenarioError, match=rf"x\.py: cannot be loaded: {leaves.partition('(')[0]}"):
        scenarios.load(tmp_path / "x.py")


def test_a_file_that_is_interrupted_is_no_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        scenarios.load(tmp_path / "x.py")


def test_the_projects_own_scenarios_load_without_torch_and_name_models_that_exist() -> None:
    import sys

    folder = Path(__file__).parents[2] / "scenarios"
    shapes = scenarios.load_shapes(folder)
    for name, file in scenarios.find(folder).items():
        declared_there = scenarios.load(file)
        for device in declared_there.devices:
            for variant in declared_there.variant_ids:
                parameters = declared_there.resolve(variant, device)
                assert "program" in parameters or parameters["model"] in shapes, name
    assert "torch" not in sys.modules


SHAPES = {"small": {"hidden_size": 64, "num_hidden_layers": 4}, "large": {"hidden_size": 4096, "num_hidden_layers": 80}}


def with_models(tmp_path: Path, models: str = f"SHAPES = {SHAPES}\n") -> scenarios.Scenario:
    """A scenario on a model, as it loads from a folder with ``models.py``."""
    (tmp_path / "models.py").write_text(models)
    (tmp_path / "x.py").write_text(
        "from dsregress.probe.scenario import Scenario\n"
        'SCENARIO = Scenario(version=1, summary="", framework="frames.adapter", parameters={"model": "small"}, '
        'devices={"sim": {}, "cuda": {"model": "large"}})\n'
    )
    return scenarios.load(tmp_path / "x.py")


def test_the_shape_of_the_model_that_results_is_a_parameter(tmp_path: Path) -> None:
    scenario = with_models(tmp_path)
    assert scenario.resolve("base", "sim") == {"model": "small", "shape": SHAPES["small"]}
    assert scenario.resolve("base", "cuda") == {"model": "large", "shape": SHAPES["large"]}
    assert scenario.resolve("model=small", "cuda") == {"model": "small", "shape": SHAPES["small"]}


def test_changes_on_top_of_a_variant_reach_the_shape(tmp_path: Path) -> None:
    scenario = with_models(tmp_path)
    changes = {"model": "large", "layers": 3}
    shape = {"hidden_size": 4096, "num_hidden_layers": 3}
    assert scenario.resolve("base", "sim", changes) == {**changes, "shape": shape}


def test_a_model_that_models_py_does_not_have_is_an_error_that_names_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"models\.py: no such model: huge \(known: small, large\)"):
        with_models(tmp_path).resolve("model=huge", "sim")


def test_a_models_py_without_shapes_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"models\.py: has no SHAPES"):
        with_models(tmp_path, "TABLE = {}\n")


def test_a_shape_is_no_parameter_that_a_scenario_declares() -> None:
    with pytest.raises(ScenarioError, match="shape is taken from models.py"):
        declared(parameters={**PARAMETERS, "shape": {}})


def test_modules_that_scenarios_import_are_no_scenarios(tmp_path: Path) -> None:
    for name in ("__init__", "_helper", "conftest", "families", "mine", "models", "test_scenarios"):
        (tmp_path / f"{name}.py").touch()
    assert list(scenarios.find(tmp_path)) == ["mine"]


def test_a_remedy_is_a_variant_that_is_not_among_the_variants() -> None:
    scenario = declared(remedies={"offload it": {"offload": True, "accumulation": None}})
    assert scenario.remedy_ids == {"offload it": "offload=true,accumulation=none"}
    assert scenario.variant_ids == ["dtype=fp32"]
    assert scenario.resolve("offload=true,accumulation=none", "sim")["offload"] is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remedies": {"do nothing": {}}}, "do nothing: changes nothing"),
        ({"pins": {"pin nothing": {}}}, "pin nothing: changes nothing"),
        (
            {"remedies": {"one": {"zero_stage": 2}, "two": {"zero_stage": 2}}},
            "remedies: the same change twice: one, two",
        ),
    ],
)
def test_a_remedy_that_says_nothing_of_its_own_does_not_load(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        declared(**changes)
    assert str(error.value) == message
