"""Which cells a call means, and what it says when it means none."""

from __future__ import annotations

import dataclasses

import pytest

from dsregress.errors import UsageError
from dsregress.model import Hardware, Stack
from dsregress.probe.scenario import Scenario
from dsregress.run import cell_matrix
from dsregress.run.cell_matrix import Selection

NO_GPU = Hardware(cpu="c", cores=2, memory_bytes=1)
GPU = Hardware(cpu="c", cores=2, memory_bytes=1, gpus=("H100",))
STACKS = [Stack(python="3.11", versions={"deepspeed": version}) for version in ("0.15.0", "0.16.4")]
PARAMETERS = {"zero_stage": 3, "dtype": "bf16"}
SCENARIOS = {
    "llama": Scenario(
        version=2,
        summary="",
        framework="f",
        parameters=PARAMETERS,
        devices={"sim": {}, "cpu": {"dtype": "fp32"}, "cuda": {}},
        variants=({}, {"zero_stage": 2}),
    ),
    "qwen": Scenario(version=1, summary="", framework="f", parameters=PARAMETERS, devices={"cpu": {}}),
}
DEFAULT = ["llama/base/cpu", "qwen/*/cpu"]


def workloads(selection: Selection, hardware: Hardware = NO_GPU, default: list[str] = DEFAULT) -> list[str]:
    return list(cell_matrix.build_matrix(STACKS, SCENARIOS, selection, default, hardware).workloads)


def test_without_a_selection_the_default_runs_on_every_stack() -> None:
    built = cell_matrix.build_matrix(STACKS, SCENARIOS, Selection(), DEFAULT, NO_GPU)
    assert [cell.id for cell in built.cells] == [
        "py3.11-deepspeed0.15.0/llama/base/cpu",
        "py3.11-deepspeed0.16.4/llama/base/cpu",
        "py3.11-deepspeed0.15.0/qwen/base/cpu",
        "py3.11-deepspeed0.16.4/qwen/base/cpu",
    ]
    assert built.cells[0].parameters == {"zero_stage": 3, "dtype": "fp32"}
    assert built.cells[0].scenario_version == 2


def test_a_device_alone_runs_the_default_there_and_says_what_cannot() -> None:
    built = cell_matrix.build_matrix(STACKS, SCENARIOS, Selection(devices=("sim",)), DEFAULT, NO_GPU)
    assert list(built.workloads) == ["llama/base/sim"]
    assert [(skip.workload, skip.reason) for skip in built.skipped] == [
        ("qwen/base/sim", "the scenario does not run on sim (it runs on: cpu)")
    ]


def test_releases_that_a_workload_does_not_use_are_measured_once() -> None:
    without = dataclasses.replace(SCENARIOS["qwen"], unused=("deepspeed",))
    other_torch = Stack(python="3.11", versions={"deepspeed": "0.16.4", "torch": "2.13.0"})
    built = cell_matrix.build_matrix([*STACKS, other_torch], {"qwen": without}, Selection(), ["qwen/*/cpu"], NO_GPU)
    assert [cell.stack for cell in built.cells] == [STACKS[0], other_torch]
    assert [(skip.workload, skip.reason) for skip in built.skipped] == [
        ("qwen/base/cpu", "other releases of deepspeed, which it does not use")
    ]


def test_a_scenario_replaces_the_default_with_all_its_variants() -> None:
    assert workloads(Selection(scenarios=("lla*",), devices=("cpu",))) == ["llama/base/cpu", "llama/zero_stage=2/cpu"]


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [(NO_GPU, ["llama/base/sim", "llama/base/cpu"]), (GPU, ["llama/base/cuda"])],
)
def test_auto_takes_the_gpu_where_there_is_one_else_all_other_modes(hardware: Hardware, expected: list[str]) -> None:
    assert workloads(Selection(scenarios=("llama",), variants=("base",)), hardware) == expected


def test_auto_without_a_gpu_scenario_falls_back_to_its_modes() -> None:
    assert workloads(Selection(scenarios=("qwen",)), GPU) == ["qwen/base/cpu"]


def test_cuda_without_a_gpu_is_skipped_aloud() -> None:
    built = cell_matrix.build_matrix(
        STACKS, SCENARIOS, Selection(scenarios=("llama",), devices=("cuda",)), DEFAULT, NO_GPU
    )
    assert not built.cells
    assert built.skipped[0].reason == "this machine has no GPU"


def with_torch(*versions: str) -> list[Stack]:
    return [Stack(python="3.11", versions={"torch": version, "deepspeed": "0.16.4"}) for version in versions]


@pytest.mark.parametrize(
    ("version", "device", "oldest"),
    [("2.2.2", "sim", "2.3.0"), ("2.1.2+cu121", "cpu", "2.2.0"), ("2.1.2", "*", "2.2.0")],
)
def test_a_stack_whose_torch_is_too_old_is_refused_before_it_is_built(version: str, device: str, oldest: str) -> None:
    selection = Selection(scenarios=("llama",), variants=("base",), devices=(device,))
    said = rf"^--torch: torch 2\.\d\.2 is too old for \w+; give --torch {oldest} or a newer one$"
    with pytest.raises(UsageError, match=said):
        cell_matrix.build_matrix(with_torch("2.13.0", version), SCENARIOS, selection, DEFAULT, NO_GPU)


def test_a_stack_is_built_whose_torch_is_too_old_for_the_simulation_alone() -> None:
    built = cell_matrix.build_matrix(
        with_torch("2.2.2"), SCENARIOS, Selection(scenarios=("llama",), variants=("base",)), (), NO_GPU
    )
    assert [cell.device for cell in built.cells] == ["sim", "cpu"]


def test_an_interpreter_that_exists_is_not_built_and_speaks_for_itself() -> None:
    existing = Stack(python="3.11+1a2b3c4d", versions={"torch": "2.2.2"})
    assert cell_matrix.build_matrix(
        [existing], SCENARIOS, Selection(scenarios=("llama",), devices=("sim",)), (), NO_GPU
    ).cells


def test_a_variant_may_be_spelled_out() -> None:
    built = cell_matrix.build_matrix(
        STACKS, SCENARIOS, Selection(variants=("zero_stage=1,dtype=fp16",), devices=("cpu",)), DEFAULT, NO_GPU
    )
    assert list(built.workloads) == ["llama/zero_stage=1,dtype=fp16/cpu", "qwen/zero_stage=1,dtype=fp16/cpu"]
    assert built.cells[0].parameters == {"zero_stage": 1, "dtype": "fp16"}


def test_a_workload_that_several_globs_name_runs_once() -> None:
    assert workloads(Selection(scenarios=("qwen", "q*"))) == ["qwen/base/cpu"]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(scenarios=("lama",)), "no such scenario: lama; did you mean llama?"),
        (Selection(scenarios=("zzzzzzzz",)), "no such scenario: zzzzzzzz; there are: llama, qwen"),
        (
            Selection(scenarios=("llama",), variants=("zero_stag=2",)),
            (
                "llama: no such variant: zero_stag=2 ('zero_stag' is not a parameter of this scenario); "
                "`dsregress scenarios` lists scenarios with their variants"
            ),
        ),
        (
            Selection(scenarios=("llama",), variants=("zero_stage=*1",)),
            "llama: no such variant: zero_stage=*1; did you mean zero_stage=2?",
        ),
        (
            Selection(scenarios=("llama", "qwen"), variants=("zero_stage=*1",)),
            "llama, qwen: no such variant: zero_stage=*1; did you mean zero_stage=2?",
        ),
        (
            Selection(scenarios=("qwen", "llama"), variants=("zero_stage=2", "lr=1")),
            (
                "qwen: no such variant: lr=1 ('lr' is not a parameter of this scenario); "
                "`dsregress scenarios` lists scenarios with their variants"
            ),
        ),
        (Selection(scenarios=("qwen",), devices=("s*",)), "qwen: no such device: s*; there are: sim, cpu, cuda"),
        (Selection(devices=("metal",)), "no such device: metal; there are: sim, cpu, cuda, auto"),
    ],
)
def test_a_glob_that_matches_nothing_names_what_exists(selection: Selection, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        workloads(selection)
    assert str(caught.value) == message


LORA = Scenario(
    version=1,
    summary="",
    framework="f",
    parameters={**PARAMETERS, "rank": 8},
    devices={"cpu": {}},
    variants=({}, {"rank": 16}),
)


@pytest.mark.parametrize("scenarios", [("llama", "lora"), ("lora", "llama")], ids=" then ".join)
@pytest.mark.parametrize("variant", ["rank=16", "rank=*6", "rank=4"])
def test_a_variant_of_one_of_several_scenarios_runs_there_and_says_so(scenarios: tuple[str, ...], variant: str) -> None:
    selection = Selection(scenarios=scenarios, variants=(variant,))
    built = cell_matrix.build_matrix(STACKS, {**SCENARIOS, "lora": LORA}, selection, DEFAULT, NO_GPU)
    assert list(built.workloads) == [f"lora/{variant.replace('*', '1')}/cpu"]
    assert [(skip.workload, skip.reason) for skip in built.skipped] == [
        (f"llama/{variant}", "the scenario has no such variant")
    ]


def test_a_value_that_our_own_adapters_do_not_know_is_no_releases_failure() -> None:
    ours = dataclasses.replace(SCENARIOS["llama"], framework="deepspeed")
    selection = Selection(variants=("zero_stage=9",), devices=("cpu",))
    with pytest.raises(UsageError) as caught:
        cell_matrix.build_matrix(STACKS, {"llama": ours}, selection, DEFAULT, NO_GPU)
    assert str(caught.value) == "llama: no such variant: zero_stage=9; known are: 0, 1, 2, 3"
    others = {"llama": SCENARIOS["llama"]}
    assert list(cell_matrix.build_matrix(STACKS, others, selection, DEFAULT, NO_GPU).workloads) == [
        "llama/zero_stage=9/cpu"
    ]


def test_a_malformed_default_names_its_key() -> None:
    with pytest.raises(UsageError, match=r"\[tool.dsregress\] select: not a selection: 'llama/cpu'"):
        workloads(Selection(), default=["llama/cpu"])


@pytest.mark.parametrize("asked", ["take fp16", "dtype=fp16", "take*"])
def test_a_remedy_is_run_where_it_is_named_and_by_no_glob_over_all_variants(asked: str) -> None:
    declared = Scenario(
        version=1,
        summary="",
        framework="f",
        parameters=PARAMETERS,
        devices={"cpu": {}},
        remedies={"take fp16": {"dtype": "fp16"}},
    )

    def of(variant: str) -> list[str]:
        selection = Selection(scenarios=("s",), variants=(variant,))
        return list(cell_matrix.build_matrix(STACKS, {"s": declared}, selection, [], NO_GPU).workloads)

    assert of(asked) == ["s/dtype=fp16/cpu"]
    assert of("*") == ["s/base/cpu"]


def environments(*packages: dict[str, str]) -> list[dict[str, str]]:
    """Return what scenarios' cells of one stack add to it, once they share an environment where they can."""
    scenarios = {
        f"s{at}": dataclasses.replace(SCENARIOS["qwen"], parameters={**PARAMETERS, "packages": own})
        for at, own in enumerate(packages)
    }
    built = cell_matrix.build_matrix(STACKS[:1], scenarios, Selection(scenarios=("*",)), (), NO_GPU)
    cells = cell_matrix.in_one_environment(built).cells
    return [dict(cell.environment_stack.versions.items() - STACKS[0].versions.items()) for cell in cells]


def test_workloads_with_other_packages_share_an_environment_that_has_both() -> None:
    assert environments({"trl": "1", "datasets": "5"}, {"trl": "1"}) == [{"trl": "1", "datasets": "5"}] * 2


def test_workloads_of_different_releases_keep_environments_of_their_own() -> None:
    assert environments({"trl": "1"}, {"trl": "2", "datasets": "5"}) == [{"trl": "1"}, {"trl": "2", "datasets": "5"}]
