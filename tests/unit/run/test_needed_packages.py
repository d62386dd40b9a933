"""What a program imports and its stack lacks is said at once, before an environment is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.errors import UsageError
from dsregress.probe import launch_line
from dsregress.run.needed_packages import ProgramNeeds, check_imports, needs_of_program
from dsregress.versions import locking

LOCKED = [line for line in locking.BASE.read_text().splitlines() if "==" in line and not line.startswith("#")]

TRAIN = """
import json, torch, yaml, transformers
import datasets
from PIL import Image
from sklearn.metrics import f1_score
from own.model import Model
import flash_attn
import xformers.ops
from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
import an_unknown_module
try:
    import wandb
except ImportError:
    wandb = None
def later():
    import pandas
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "src" / "own").mkdir(parents=True)
    (tmp_path / "src" / "own" / "model.py").write_text("import trl\nfrom . import part\n")
    (tmp_path / "src" / "own" / "part.py").write_text("import tiktoken\n")
    return tmp_path


def refusal(folder: Path, line: str = "torchrun train.py", *more: str) -> str:
    with pytest.raises(UsageError) as raised:
        check_imports(launch_line.parse(line), folder, [*LOCKED, *more])
    return str(raised.value)


def needs(folder: Path, line: str = "torchrun train.py", *more: str) -> ProgramNeeds:
    return needs_of_program(launch_line.parse(line), folder, [*LOCKED, *more])


def test_all_that_its_files_import_is_named_with_the_options_to_paste(folder: Path) -> None:
    assert refusal(folder) == (
        "--program: train.py imports 'PIL', 'datasets', 'sklearn', 'tiktoken' and 'trl', which the stack lacks; add "
        "--with datasets --with pillow --with scikit-learn --with tiktoken --with trl"
    )


@pytest.mark.parametrize("key", ["_target_", "target", "class_path"])
def test_what_settings_name_and_the_project_requires_is_needed(folder: Path, key: str) -> None:
    (folder / "train.py").write_text("import hydra\n")
    (folder / "src" / "own" / "sounds.py").write_text("import torchaudio\nfrom own import model\n")
    (folder / "configs" / "data").mkdir(parents=True)
    (folder / "configs" / "data" / "speech.yaml").write_text(f"{key}: own.sounds.Sounds\nrate: 16000\n")
    (folder / "requirements.txt").write_text("hydra-core\ntorchaudio\n")
    assert [*needs(folder).packages] == ["hydra-core", "torchaudio"]  # and not trl, which it does not require
    assert needs(folder).modules == ("hydra",)


@pytest.mark.parametrize(
    ("source", "line", "package"),
    [
        ("logger = L.pytorch.loggers.WandbLogger(project='x')", "python train.py", "wandb"),
        ("T5Tokenizer.from_pretrained('t5-small')", "python train.py", "sentencepiece"),
        ("def of(name): return T5Tokenizer", "python train.py", ""),
        ("Accelerator(log_with='tensorboard')", "python train.py", "tensorboard"),
        ("", "python train.py --report_to wandb", "wandb"),
        ("", "python train.py --report-to='wandb'", "wandb"),
        ("", "python train.py --report_to none", ""),
    ],
)
def test_what_libraries_need_for_a_class_or_a_tracker_is_needed(
    tmp_path: Path, source: str, line: str, package: str
) -> None:
    (tmp_path / "train.py").write_text(source)
    assert " ".join(needs(tmp_path, line).packages) == package


def test_what_the_project_requires_of_every_stack_is_read(folder: Path) -> None:
    (folder / "requirements.txt").write_text("transformers==4.37.2\ntorch>=2.4,<2.6\nnumpy==1.26\n")
    found = needs(folder).partners
    assert {name: str(one.requirement.specifier) for name, one in found.items()} == {
        "torch": "<2.6,>=2.4",
        "transformers": "==4.37.2",
    }


def test_what_the_project_requires_and_imports_under_a_condition_is_needed(folder: Path) -> None:
    (folder / "src" / "own" / "part.py").write_text(
        "import tiktoken\nif tiktoken:\n    import wandb\ndef log():\n    from tensorboard.x import y\n    import nltk2\n"
    )
    (folder / "requirements.txt").write_text("wandb\ntensorboard\nnltk\n")
    found = needs(folder)
    assert [*found.packages] == ["datasets", "pillow", "scikit-learn", "tensorboard", "tiktoken", "trl", "wandb"]
    assert found.modules == ("PIL", "datasets", "sklearn", "tiktoken", "trl")
    (folder / "train.py").write_text("import own.part\n")
    (folder / "src" / "own" / "part.py").write_text("if own:\n    import wandb\n")
    assert [*needs(folder).packages] == ["tensorboard", "wandb"]  # libraries look for the former
    check_imports(launch_line.parse("torchrun train.py"), folder, LOCKED)


def test_modules_of_its_own_that_functions_import_are_followed_for_what_the_project_requires(folder: Path) -> None:
    (folder / "train.py").write_text("from own import data\n")
    (folder / "src" / "own" / "data.py").write_text("def images():\n    from .augment import more\n")
    (folder / "src" / "own" / "augment.py").write_text("import imgaug.augmenters\nimport trl\nfrom . import data\n")
    (folder / "requirements.txt").write_text("imgaug==0.4.0\n")
    assert [*needs(folder).packages] == ["imgaug"]  # and not trl, which it does not require
    assert needs(folder).modules == ()


def test_what_else_the_project_requires_is_kept_for_modules_of_another_name(folder: Path) -> None:
    (folder / "requirements.txt").write_text("descript-audio-codec==1.0\ntrl\ntorch\nnumpy\npytest\nflash-attn\n")
    assert {name: one.pin for name, one in needs(folder).others.items()} == {"descript-audio-codec": "1.0"}


def test_what_libraries_look_for_is_needed_only_if_the_project_requires_it(folder: Path) -> None:
    (folder / "train.py").write_text("import transformers\n")
    assert needs(folder).packages == {}
    (folder / "requirements.txt").write_text("sentencepiece==0.2.0\nhydra-colorlog\nblack\ngradio\n")
    assert [*needs(folder).packages] == ["hydra-colorlog", "sentencepiece"]


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("trl sft --model x", "trl"),
        ("litgpt finetune x", "litgpt"),
        ("llamafactory-cli train x.yaml", "llamafactory"),
        ("axolotl train x.yml", "axolotl"),
        ("swift sft --model x", "ms-swift"),
        ("deepspeed --module openrlhf.cli.train_sft --bf16", "openrlhf"),
        ("accelerate launch -m axolotl.cli.train x.yml", "axolotl"),
    ],
)
def test_the_package_of_a_command_or_of_a_module_is_needed(tmp_path: Path, line: str, package: str) -> None:
    assert [*needs(tmp_path, line).packages] == [package]
    assert needs(tmp_path, line, f"{package}==1.0").packages == {}


def test_a_module_of_the_folder_is_of_no_package(tmp_path: Path) -> None:
    (tmp_path / "openrlhf").mkdir()
    (tmp_path / "openrlhf" / "train.py").write_text("")
    assert needs(tmp_path, "deepspeed --module openrlhf.train").packages == {}


def test_a_command_of_the_project_imports_what_its_entry_does(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project]\nname = 'own'\n[project.scripts]\nown-train = 'own.model:main'\n")
    assert [*needs(folder, "own-train --lr 1").packages] == ["tiktoken", "trl"]


def test_a_package_that_the_project_requires_is_missing_though_a_module_of_its_own_has_its_name(folder: Path) -> None:
    (folder / "src" / "callbacks").mkdir()
    (folder / "src" / "callbacks" / "datasets.py").touch()
    assert "'datasets'" not in refusal(folder)
    (folder / "requirements.txt").write_text("datasets\n")
    assert "'datasets'" in refusal(folder)


def test_the_projects_own_pins_are_offered(folder: Path) -> None:
    (folder / "requirements.txt").write_text(
        "datasets==2.16.1  # of its time\n-r other.txt\ntrl>=0.9,<1\nan-unknown-module==3.0\n"
    )
    (folder / "pyproject.toml").write_text("[project]\nname = 'own'\ndependencies = ['pillow==11.0.0']\n")
    assert refusal(folder).endswith(
        "add --with an-unknown-module=3.0 --with datasets=2.16.1 --with pillow=11.0.0 --with scikit-learn --with tiktoken "
        "--with trl"
    )


@pytest.mark.parametrize("how", ["from torch.utils.tensorboard import X", "import torch.utils.tensorboard as tb"])
def test_what_a_module_of_torch_imports_is_needed_too(folder: Path, how: str) -> None:
    (folder / "train.py").write_text(how + "\n")
    assert "imports 'tensorboard', which" in refusal(folder)


def test_a_required_package_is_known_by_a_part_of_its_name_unless_another_one_provides_it(folder: Path) -> None:
    (folder / "train.py").write_text("import fms.models\nimport torch\nimport geometric\nimport own\n")
    (folder / "requirements.txt").write_text("ibm-fms>=0.0.3\ntorch-geometric\nmy-own\n")
    assert refusal(folder, "torchrun train.py", "torch-geometric==2.6") == (
        "--program: train.py imports 'fms', which the stack lacks; add --with ibm-fms"
    )


def test_what_was_added_is_not_missing(folder: Path) -> None:
    added = ["Pillow==11.0", "datasets==4.0.0", "scikit_learn==1.5", "tiktoken==0.9", "trl==0.24.0"]
    check_imports(launch_line.parse("torchrun train.py"), folder, [*LOCKED, *added])
    assert "imports 'tiktoken', which" in refusal(folder, "torchrun train.py", *added[:3], added[4])


def test_a_module_is_read_as_a_script_is(folder: Path) -> None:
    assert refusal(folder, "PYTHONPATH=src: python -m own.model").startswith(
        "--program: own.model imports 'tiktoken' and 'trl', which the stack lacks"
    )


def test_a_module_of_the_programs_own_is_not_missing_wherever_it_lies(folder: Path) -> None:
    (folder / "third_party" / "datasets").mkdir(parents=True)
    (folder / "third_party" / "datasets" / "__init__.py").touch()
    assert "'datasets'" not in refusal(folder)


def test_a_command_that_a_package_installs_imports_nothing_of_the_folder(folder: Path) -> None:
    assert needs(folder, "trl sft --model x").modules == ()


@pytest.mark.parametrize("content", ["this is no Python", "\0", "import torch\n"])
def test_a_file_that_cannot_be_read_names_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "train.py").write_text(content)
    (tmp_path / "pyproject.toml").write_text("not [ toml")
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe")
    check_imports(launch_line.parse("torchrun train.py"), tmp_path, LOCKED)


def test_what_the_file_that_is_run_imports_as_the_main_module_is_needed(folder: Path) -> None:
    (folder / "helper.py").write_text("if __name__ == '__main__':\n    import wandb\n")
    (folder / "train.py").write_text("import helper\nif __name__ == '__main__':\n    import datasets\n")
    assert needs(folder).modules == ("datasets",)


EXTRAS = """
[project]
name = "own"
dependencies = ["pandas"]
[project.optional-dependencies]
export = ["onnx>=1.12", "datasets>=3"]
"""


@pytest.mark.parametrize(
    ("readme", "added"),
    [
        ("pip install -e .", ["datasets", "pandas"]),
        ('pip install -e ".[export]"', ["datasets", "onnx", "pandas"]),
        ("uv sync --extra export", ["datasets", "onnx", "pandas"]),
    ],
)
def test_an_extra_is_for_what_is_imported_in_any_case_unless_its_project_is_installed_with_it(
    tmp_path: Path, readme: str, added: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(EXTRAS)
    (tmp_path / "README.md").write_text(f"Run\n\n    {readme}\n")
    (tmp_path / "train.py").write_text("import datasets\ndef plot(): import pandas\ndef export(): import onnx\n")
    assert [*needs(tmp_path).packages] == added


def test_what_torch_loads_for_another_accelerator_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch-npu==2.7.1\ndatasets\n")
    (tmp_path / "train.py").write_text("import datasets\nif available(): import torch_npu\n")
    assert [*needs(tmp_path).packages] == ["datasets"]


def test_a_module_that_the_stack_has_is_not_that_of_a_package_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies:\n  - pyyaml=6.0.1\n  - yaml=0.2.5=h7b6447c_0\n")
    (tmp_path / "train.py").write_text("import yaml\n")
    assert [*needs(tmp_path).packages] == []
    check_imports(launch_line.parse("torchrun train.py"), tmp_path, LOCKED)


@pytest.mark.parametrize("place", [".", "src"])
def test_a_script_of_a_librarys_examples_imports_the_library_of_its_repository(tmp_path: Path, place: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sentence-transformers'\ndependencies = ['trl>=0.9']\n")
    package = tmp_path / place / "sentence_transformers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import trl\n")
    examples = tmp_path / "examples" / "nli"
    examples.mkdir(parents=True)
    (examples / "train.py").write_text("import sentence_transformers\nimport datasets\n")
    found = needs(examples)
    assert found.itself == ("sentence_transformers", "sentence-transformers", "../.." if place == "." else "../../src")
    assert [*found.packages] == ["datasets", "trl"]
    assert needs(examples, "PYTHONPATH=../..:../../src python train.py").itself is None
    (package / "kernel.cu").touch()
    assert needs(examples).itself is None
    (examples / "train.py").write_text("import datasets\n")
    (package / "kernel.cu").unlink()
    assert needs(examples).itself is None
