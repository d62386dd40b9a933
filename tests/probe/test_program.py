from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsregress.probe.program import program, spelled_out
from dsregress.probe.scenario import ScenarioError, one_by_one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "ds.json").write_text("{}\n")
    return tmp_path


def test_a_program_runs_in_sim_and_on_cpu_with_the_ranks_of_its_line(folder: Path) -> None:
    declared = program(version=1, line="torchrun --nproc_per_node 4 train.py", folder=str(folder))
    assert list(declared.devices) == ["sim", "cpu"]
    assert declared.resolve("base", "sim")["world_size"] == 4
    assert declared.folder == str(folder)


def test_values_in_the_line_are_parameters_that_variants_change(folder: Path) -> None:
    declared = program(
        version=1,
        line="train.py --batch {batch}",
        folder=str(folder),
        values={"batch": 1},
        variants=one_by_one(batch=(2, 4)),
    )
    assert declared.variant_ids == ["batch=2", "batch=4"]
    assert declared.resolve("batch=8", "sim")["batch"] == 8


def test_changed_code_or_settings_are_another_workload(folder: Path) -> None:
    def sources() -> str:
        parameters = program(version=1, line="train.py --deepspeed ds.json", folder=str(folder)).parameters
        return str(parameters["sources_sha256"])

    before = sources()
    (folder / "data.bin").write_bytes(b"x")
    assert sources() == before
    (folder / "ds.json").write_text('{"a": 1}\n')
    changed = sources()
    assert changed != before
    (folder / "package").mkdir()
    (folder / "package" / "model.py").write_text("x = 1\n")
    assert sources() != changed


def test_a_file_that_the_line_names_counts_whatever_it_is(folder: Path) -> None:
    data = folder / "data.bin"
    data.write_bytes(b"1")
    first = program(version=1, line="train.py --data=data.bin", folder=str(folder)).parameters["sources_sha256"]
    data.write_bytes(b"2")
    assert program(version=1, line="train.py --data=data.bin", folder=str(folder)).parameters["sources_sha256"] != first


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("torchrun no.py", "program: no such file: no.py in "),
        ("train.py --batch {batch}", "program: {batch} has no value"),
        ("torchrun", "program: torchrun without a program"),
        ("python accounts", "program: accounts is no Python; name the script that the line starts"),
        ("python fifo", "program: no such file: fifo in "),
        ("accelerate launch --config_file fifo train.py", "program: fifo cannot be read: a FIFO, not a regular file"),
        (
            "accelerate launch --config_file /dev/zero train.py",
            "program: /dev/zero cannot be read: a device, not a regular",
        ),
        (
            "accelerate launch --config_file large.yaml train.py",
            "program: large.yaml cannot be read: larger than 1 MiB",
        ),
    ],
)
def test_what_cannot_be_launched_is_refused(folder: Path, line: str, why: str) -> None:
    (folder / "accounts").write_text("root:x:0:0:root:/root:/bin/bash\n")
    os.mkfifo(folder / "fifo")
    with (folder / "large.yaml").open("wb") as large:
        large.truncate((1 << 20) + 1)
    with pytest.raises(ScenarioError) as refused:
        program(version=1, line=line, folder=str(folder))
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("text", ["distributed_type: DEEPSPEED\nnum_processes: 8\n", '{\n  "num_processes": 8\n}'])
def test_the_ranks_of_accelerates_configuration_count(folder: Path, text: str) -> None:
    (folder / "zero3.yaml").write_text(text)

    def ranks(line: str) -> object:
        return program(version=1, line=line, folder=str(folder)).parameters["world_size"]

    assert ranks("accelerate launch --config_file zero3.yaml train.py") == 8
    assert ranks("CUDA_VISIBLE_DEVICES=0,1 accelerate launch --config_file=zero3.yaml train.py") == 8
    assert ranks("accelerate launch --config_file zero3.yaml --num_processes 2 train.py") == 2
    assert ranks("CUDA_VISIBLE_DEVICES=0,1 accelerate launch train.py") == 2
    assert ranks("trl sft --accelerate_config zero3.yaml") == 8
    assert ranks("accelerate launch train.py") == 1


def test_a_configuration_that_is_not_there_says_nothing_of_ranks(folder: Path) -> None:
    line = "accelerate launch --config_file absent.yaml train.py"
    assert program(version=1, line=line, folder=str(folder)).parameters["world_size"] == 1


@pytest.mark.parametrize("line", ["python bin/train", "train.py", "torchrun --no-python ./start.sh"])
def test_a_program_is_a_file_of_python_or_one_that_its_launcher_starts_as_it_is(folder: Path, line: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "train").write_text("#!/usr/bin/env python\nprint(1)\n")
    (folder / "train.py").write_text("what = a newer Python\n")
    (folder / "start.sh").write_text("for x in 1; do echo $x; done\n")
    assert program(version=1, line=line, folder=str(folder)).parameters["program"] == line


def test_a_link_to_itself_in_the_project_is_no_source(folder: Path) -> None:
    before = program(version=1, line="train.py", folder=str(folder)).parameters["sources_sha256"]
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "loop.py").symlink_to("loop.py")
    assert program(version=1, line="train.py", folder=str(folder)).parameters["sources_sha256"] == before


def test_a_line_that_backslashes_continue_is_one_line(folder: Path) -> None:
    line = "torchrun \\\n  --nproc_per_node 2 \\\n  train.py --lr 1\n"
    declared = program(version=1, line=line, folder=str(folder))
    assert declared.parameters["program"] == "torchrun --nproc_per_node 2 train.py --lr 1"
    assert declared.parameters["world_size"] == 2


def test_a_value_that_names_another_parameter_is_not_expanded_again() -> None:
    parameters = {"program": "train.py --a {a} --b {b} --x {x}", "a": "{b}", "b": True, "arguments": "--more"}
    assert spelled_out(parameters) == "train.py --a {b} --b true --x {x} --more"
