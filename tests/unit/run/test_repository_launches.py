"""Launch lines that repositories write down, and which of them start something."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.run.repository_launches import launches_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "zero3.yaml").write_text("distributed_type: DEEPSPEED\n")
    (tmp_path / "train.py").write_text("")
    return tmp_path


def lines(root: Path) -> list[tuple[str, str]]:
    return [(one.file, one.line) for one in launches_in(root)]


def test_a_readme_shows_lines_over_several_lines_and_behind_prompts(root: Path) -> None:
    (root / "README.md").write_text(
        "Train it:\n```sh\n$ ACCELERATE_LOG_LEVEL=info accelerate launch \\\n"
        "    --config_file configs/zero3.yaml train.py\n```\n"
        "or `torchrun train.py` in prose.\n"
    )
    line = "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file configs/zero3.yaml train.py"
    assert lines(root) == [("README.md", line)]


@pytest.mark.parametrize(
    "line",
    [
        "torchrun missing.py",
        "accelerate launch --config_file configs/{name}.yaml train.py",
        "accelerate config",
        "deepspeed",
        "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B",
        "python prepare_data.py",
        "deepspeed --hostfile",
    ],
)
def test_what_starts_nothing_that_is_here_is_no_launch(line: str, root: Path) -> None:
    (root / "prepare_data.py").write_text("")
    (root / "README.md").write_text(f"```\n{line}\n```\n")
    assert lines(root) == []


def test_a_command_counts_with_the_settings_that_it_names(root: Path) -> None:
    (root / "sft.yaml").write_text("stage: sft\n")
    (root / "README.md").write_text("```\nllamafactory-cli train sft.yaml\n```\n")
    assert lines(root) == [("README.md", "llamafactory-cli train sft.yaml")]


def test_a_script_starts_in_its_own_folder_if_its_files_are_there(root: Path) -> None:
    folder = root / "examples"
    folder.mkdir()
    (folder / "sft.py").write_text("")
    (folder / "run.sh").write_text('#!/bin/bash\ndeepspeed --num_gpus 2 sft.py "$@"\n')
    (found,) = launches_in(root)
    assert (found.line, found.folder) == ("deepspeed --num_gpus 2 sft.py", "examples")


@pytest.mark.slow
def test_what_a_script_fills_in_is_filled_in(root: Path) -> None:
    (root / "run.sh").write_text(
        "STAGE=zero3\naccelerate launch --config_file configs/$STAGE.yaml train.py 2>&1 | tee log\n"
    )
    assert lines(root) == [("run.sh", "accelerate launch --config_file configs/zero3.yaml train.py")]
    assert not (root / "log").exists()


def test_tasks_of_a_makefile_and_of_pyproject_count(root: Path) -> None:
    (root / "Makefile").write_text("train:\n\ttorchrun --nproc_per_node 2 train.py\n")
    (root / "pyproject.toml").write_text('[tool.poe.tasks]\ntrain = "deepspeed train.py"\nlint = "ruff check"\n')
    assert lines(root) == [
        ("Makefile", "torchrun --nproc_per_node 2 train.py"),
        ("pyproject.toml", "deepspeed train.py"),
    ]


def test_lines_of_launchers_come_first_then_those_nearest_to_the_root(root: Path) -> None:
    (root / "README.md").write_text("```\npython train.py\n```\n")
    (root / "docs").mkdir()
    (root / "docs" / "README.md").write_text("```\ndeepspeed train.py\n```\n")
    assert [line for _, line in lines(root)] == ["deepspeed train.py", "python train.py"]


def test_a_large_folder_of_data_hides_no_other(root: Path) -> None:
    (root / "data" / "deep").mkdir(parents=True)
    for number in range(2_100):
        (root / "data" / "deep" / str(number)).touch()
    (root / "scripts").mkdir()
    (root / "scripts" / "run.sh").write_text("torchrun train.py\n")
    assert lines(root) == [("scripts/run.sh", "torchrun train.py")]


def test_links_and_others_code_are_not_read(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "README.md"
    elsewhere.write_text("```\ntorchrun train.py\n```\n")
    (root / "README.md").symlink_to(elsewhere)
    (root / "third_party").mkdir()
    (root / "third_party" / "README.md").write_text("```\ntorchrun train.py\n```\n")
    assert lines(root) == []
