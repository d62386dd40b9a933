"""The stack of a program as its project wants it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from packaging.requirements import Requirement

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.recipe import CpuBuilds
from dsregress.errors import UsageError
from dsregress.model import Failed, NotInstalled
from dsregress.probe import launch_line
from dsregress.run import cpu_torch, pipeline, program_stack
from dsregress.run.pipeline import Choice
from dsregress.run.project_requirements import AddressedRequirement
from dsregress.run.releases_of_day import OfCommit

#: What an index has besides the committed releases, and one release of anything else but of ``ours-alone``.
INDEX = {
    "trl": ["0.9.6", "0.19.1", "1.0.0"],
    "datasets": ["2.16.1", "5.2.0"],
    "transformers": ["4.2.1", "4.37.2", "4.40.0"],
    "torch": ["2.0.1", "2.3.1"],
    "accelerate": ["0.27.2"],
    "peft": ["0.8.2"],
    "torchvision": ["0.17.1", "0.28.0"],
    "of-signatures": ["1.0"],
    "protobuf": ["3.20.3", "7.0.0"],
    "wandb": ["0.16.0", "0.31.0"],
    "on-deepspeed": ["1.0"],
    "of-old-torch": ["0.1", "0.2"],
    "of-old-vision": ["0.1", "0.2"],
}


class Index:
    """An installer that resolves each package to the newest release of ``INDEX`` within its limits."""

    def compile(self, source: Path, output: Path, python: str, overrides: Path | None = None) -> NotInstalled | None:
        pins = []
        for one in map(Requirement, source.read_text().splitlines()):
            exact = [each.version for each in one.specifier if each.operator in ("==", "===")]
            inside = exact or [*one.specifier.filter(INDEX.get(one.name, ["1.0"]))] or [""]
            if inside == [""] and any(each.operator == ">" for each in one.specifier):
                return Failed("install", f"no solution: there is no {one}")
            if one.name == "of-old-torch" and overrides is None:
                return Failed("install", "no solution: of-old-torch depends on torch<2.10")
            if one.name == "of-old-vision" and overrides is None:
                return Failed("install", "no solution: of-old-vision depends on torchvision>=0.21.0,<0.22.1")
            if one.name == "ours-alone" or (one.name in ("trl", "datasets") and inside[-1] not in INDEX[one.name]):
                return Failed("install", f"no solution: {one}")
            if one.name == "torchvision" and inside[-1] != "0.28.0" and overrides is None:  # that of the stack's torch
                return Failed("install", f"no solution: {one} depends on torch==2.2.1")
            if one.name == "wandb" and "protobuf==3.20.3" in source.read_text():
                inside = [*one.specifier.filter(["0.16.0"])]
                if not inside:
                    return Failed("install", f"no solution: {one} needs protobuf>3.20.3")
            pins.append(f"{one.name}=={inside[-1] or '1.0'}")
            pins += ["deepspeed==0.16.4"] if one.name == "on-deepspeed" else []
            pins += [f"of-{extra}==1.0" for extra in one.extras]
        output.write_text("\n".join(pins) + "\n")
        return None

    def later_wheels(self, pins: Mapping[str, str], python: str) -> dict[str, str]:
        return {"wandb": "0.31.0"} if pins.get("wandb") == "0.1.0" else {}

    def cpu_builds(self, requirements: list[str], python: str) -> CpuBuilds:
        """Of each torch but one."""
        found = {"torch": f"{requirements[0]}+cpu"} if requirements != ["torch==2.9.0"] else {}
        return CpuBuilds(requirements=found)

    def published(self, package: str, python: str = "") -> tuple[str, ...]:
        name, _, version = package.partition("==")
        if name not in INDEX:
            raise UsageError(f"no configured index has a package {name!r}", where="package index", hint="check it")
        return tuple(one for one in INDEX[name] if not version or one == version)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import torch, trl\nimport deepspeed\nif torch:\n    import datasets\n")
    return tmp_path


def completed(
    folder: Path, choice: Choice | None = None, line: str = "torchrun train.py", index: Index | None = None
) -> program_stack.CompletedChoice:
    settings = Settings(environments=str(folder / ".dsregress"))
    given = Choice() if choice is None else choice
    installer = cast(Installer, cast(Any, index or Index()))
    return program_stack.complete_choice(given, launch_line.parse(line), folder, "sim", settings, installer)


def requires(folder: Path, *lines: str) -> None:
    (folder / "requirements.txt").write_text("\n".join(lines) + "\n")


def test_what_the_stack_lacks_is_added_in_the_release_that_the_project_pins(folder: Path) -> None:
    requires(folder, "trl>=0.9,<1", "datasets==2.16.1")
    found = completed(folder)
    assert found.choice == Choice(versions={"datasets": "2.16.1", "trl": "0.19.1"})
    assert found.notes == (
        "adds datasets 2.16.1 (requirements.txt), trl 0.19.1; --with PACKAGE=VERSION takes another release",
    )
    assert found.added == ("datasets", "trl")


def test_a_lower_bound_alone_pins_nothing(folder: Path) -> None:
    requires(folder, "trl>=0.9,<1", "datasets>=2")
    found = completed(folder)
    assert (found.added, found.pinned) == (("datasets", "trl"), ("trl",))
    assert found.oldest == {"datasets": "2"}


def test_a_package_that_is_given_without_a_release_keeps_the_project_s_lower_bound(folder: Path) -> None:
    """As `init` writes it."""
    requires(folder, "trl>=0.9", "datasets>=2")
    assert completed(folder, Choice(versions={"trl": "", "datasets": "2.16.1"})).oldest == {"trl": "0.9"}


def test_what_the_stack_has_and_the_projects_pins_do_not_bring_is_added(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed, rich\n")
    requires(folder, "transformers==4.37.2", "rich==13.7.1")
    assert "rich" not in completed(folder, Choice(versions={"transformers": "5.24.0"})).choice.versions
    found = completed(folder)
    assert found.choice.versions["rich"] == "13.7.1"
    assert found.added == ("rich",)


def test_the_release_that_the_user_named_stays(folder: Path) -> None:
    requires(folder, "trl==0.9.6", "transformers==4.40.0")
    found = completed(folder, Choice(versions={"trl": "1.0.0", "deepspeed": "0.16.8", "transformers": "5.24.0"}))
    assert found.choice.versions == {"trl": "1.0.0", "deepspeed": "0.16.8", "transformers": "5.24.0"}
    assert (found.notes, found.added) == ((), ())


def test_what_is_not_pinned_goes_with_the_pins_that_stay(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed, torchvision, wandb, google.protobuf\n")
    requires(folder, "protobuf==3.20.3", "torchvision==0.17.1", "wandb")
    found = completed(folder).choice.versions
    assert found == {"protobuf": "3.20.3", "torchvision": "0.28.0", "wandb": "0.16.0"}


@pytest.mark.parametrize("limit", [">=7", "==7"])
def test_a_pin_that_no_index_has_gives_way(folder: Path, limit: str) -> None:
    requires(folder, f"trl{limit}")
    found = completed(folder)
    assert found.choice.versions == {"trl": "1.0.0"}


def test_a_package_with_an_extra_is_added_with_what_the_extra_needs(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed\n")
    for spec, release in (("", "1.0.0"), ("0.9.6", "0.9.6"), (">=0.9,<1", "0.19.1")):
        found = completed(folder, Choice(versions={"trl[signatures]": spec}))
        assert found.choice.versions == {"trl": release, "of-signatures": "1.0"}


def test_a_package_with_an_extra_has_one_release(folder: Path) -> None:
    with pytest.raises(
        UsageError, match=r"not a package with extras: trl\[signatures\]==0.9.6,1.0.0; write one release"
    ):
        completed(folder, Choice(versions={"trl[signatures]": "0.9.6,1.0.0"}))


def test_a_pin_that_would_be_compiled_gives_way_to_the_next_release_with_a_wheel(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed, wandb\n")
    requires(folder, "wandb==0.1.0")
    found = completed(folder)
    assert found.choice.versions == {"wandb": "0.31.0"}
    assert found.notes[0] == (
        "wandb==0.1.0 (requirements.txt) has no wheel for Python 3.11 and would be compiled: wandb 0.31.0 is taken"
    )


@pytest.mark.parametrize(
    "statement",
    [
        'assert wandb.__version__ == "0.16.0"',
        'if wandb.__version__ != "0.16.0":\n    raise ImportError("no other")',
        'require_version("wandb==0.16.0")',
        'assert version.parse(wandb.__version__) <= version.parse("0.16.0"), "too new"',
    ],
)
def test_a_release_that_the_program_asserts_is_taken_and_said_before_anything_is_built(
    folder: Path, statement: str
) -> None:
    (folder / "train.py").write_text(f"import deepspeed, wandb\n{statement}\n")
    requires(folder, "wandb==0.31.0")
    found = completed(folder)
    assert (found.choice.versions, found.pinned) == ({"wandb": "0.16.0"}, ("wandb",))
    assert "adds wandb 0.16.0" in found.notes[0]


@pytest.mark.parametrize(
    ("required", "asserted", "taken"),
    [
        ("wandb==0.16.0", "wandb>=0.15.0", "0.16.0"),
        ("wandb<=0.16.0", "wandb>=0.15.0", "0.16.0"),
        ("wandb==0.15.0", "wandb>=0.16.0", "0.31.0"),
    ],
)
def test_a_lower_bound_that_the_program_asserts_leaves_a_pin_of_its_project_that_meets_it(
    folder: Path, required: str, asserted: str, taken: str
) -> None:
    (folder / "train.py").write_text(f"import deepspeed, wandb\nrequire_version({asserted!r})\n")
    requires(folder, required)
    assert completed(folder).choice.versions == {"wandb": taken}


def test_a_release_of_every_stack_that_the_program_asserts_is_taken(folder: Path) -> None:
    (folder / "train.py").write_text('import deepspeed, transformers\nassert transformers.__version__ == "4.37.2"\n')
    found = completed(folder)
    assert found.choice.versions["transformers"] == "4.37.2"
    assert found.notes[0].startswith("takes transformers 4.37.2 (train.py), ")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("install.sh", "pip3 install git+https://github.com/a/transformers@minillm\n"),
        ("requirements.txt", "transformers @ git+https://github.com/a/transformers.git@minillm\n"),
        ("requirements.txt", "-e git+https://github.com/a/hub.git@minillm#egg=transformers\n"),
        ("setup.py", 'setup(install_requires=["transformers @ git+https://github.com/a/transformers@minillm"])\n'),
        ("pyproject.toml", '[tool.uv.sources]\ntransformers = { git = "https://github.com/a/transformers" }\n'),
    ],
)
def test_a_package_that_the_project_takes_from_a_repository_is_named(folder: Path, file: str, text: str) -> None:
    (folder / "train.py").write_text("import deepspeed\nfrom transformers import mpu\n")
    (folder / file).write_text(text)
    (note,) = completed(folder).notes
    assert note.startswith("its project takes transformers from github.com/a/")
    assert f" ({file}), which may have what no release has: the release 5.24.0 is taken; to test that one, " in note


def test_a_commit_of_a_package_is_nearest_to_the_release_of_the_day_on_which_the_project_took_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "requirements.txt").write_text("trl @ git+https://github.com/a/trl@019fc6dbaa03\n")

    def of_commits(addressed: Mapping[str, AddressedRequirement], installer: Any) -> dict[str, OfCommit]:
        assert {name: one.path for name, one in addressed.items()} == {"trl": folder / "requirements.txt"}
        return {"trl": OfCommit("0.9.6", "2025-03-11")}

    monkeypatch.setattr(program_stack, "releases_of_commits", of_commits)
    found = completed(folder)
    assert (found.choice.versions, found.pinned) == ({"trl": "0.9.6"}, ("trl",))
    note = found.notes[-1]
    assert (
        "the release 0.9.6 is taken, the newest of 2025-03-11, when requirements.txt came to name that commit;" in note
    )


def test_a_project_that_says_how_it_is_installed_from_its_repository_requires_nothing(folder: Path) -> None:
    (folder / "setup.py").write_text("parts = [Extension(name='trl.fast')]\nsetuptools.setup(name='trl')\n")
    (folder / "README.md").write_text("pip install git+https://github.com/a/trl\n")
    assert not any("its project takes" in note for note in completed(folder).notes)


def test_what_the_user_added_may_go_with_what_the_project_pins_alone(folder: Path) -> None:
    class Excluding(Index):
        def compile(
            self, source: Path, output: Path, python: str, overrides: Path | None = None
        ) -> NotInstalled | None:
            text = source.read_text()
            if "wandb==0.16.0" in text and "transformers==4.40.0" not in text:
                return Failed("install", "no solution: transformers>=5 depends on wandb>0.16.0")
            return super().compile(source, output, python, overrides)

    (folder / "train.py").write_text("import deepspeed, trl, wandb\n")
    requires(folder, "transformers==4.40.0", "trl==0.9.6")
    given = Choice(versions={"wandb": "0.16.0"})
    found = completed(folder, given, index=Excluding())
    assert found.choice.versions["transformers"] == "4.40.0"
    assert found.choice.versions["trl"] == "0.9.6"


def test_a_pinned_build_for_cuda_counts_as_the_release(folder: Path) -> None:
    requires(folder, "trl==0.9.6+cu118")
    assert completed(folder).choice.versions == {"trl": "0.9.6"}


def test_what_goes_with_another_torch_gives_way_and_other_pins_stay(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed, trl, torchvision\n")
    requires(folder, "trl==0.9.6", "torchvision==0.17.1+cu118")
    assert completed(folder).choice.versions == {"trl": "0.9.6", "torchvision": "0.28.0"}


def test_a_package_that_no_index_has_is_left_out(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed, trl\nif trl:\n    import ours_alone\n")
    requires(folder, "ours-alone")
    found = completed(folder)
    assert found.choice.versions == {"trl": "1.0.0"}
    assert found.notes == (
        "leaves out ours-alone, which no index has",
        "adds trl 1.0.0; --with PACKAGE=VERSION takes another release",
    )


DEEPSPEEDS = "0.15.0,0.16.4,0.16.8,latest"


def test_the_projects_transformers_is_taken_with_partners_of_its_time(folder: Path) -> None:
    requires(folder, "transformers==4.37.2", "trl==0.9.6")
    found = completed(folder)
    assert found.choice.versions == {
        "transformers": "4.37.2",
        "accelerate": "0.27.2",
        "peft": "0.8.2",
        "deepspeed": DEEPSPEEDS,
        "trl": "0.9.6",
    }
    assert found.notes[0] == (
        "takes transformers 4.37.2 (requirements.txt), accelerate 0.27.2 (of its time), peft 0.8.2 (of its time); the "
        "default is --transformers 5.24.0 --accelerate 1.15.0 --peft 0.21.2"
    )


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("transformers>=4.45,<4.46", {"transformers": "4.45.2", "accelerate": "0.34.2", "peft": "0.13.2"}),
        ("transformers>=4.55,<5", {"transformers": "4.57.6"}),
        ("transformers>=4.45", {}),
        ("transformers", {}),
        ("torch==2.6.0+cu124", {"torch": "2.6.0"}),
        ("torch~=2.5.0", {"torch": "2.5.1"}),
    ],
)
def test_a_range_takes_the_newest_release_inside_unless_the_default_is(
    folder: Path, said: str, taken: dict[str, str]
) -> None:
    requires(folder, said)
    versions = completed(folder).choice.versions
    assert {
        name: version for name, version in versions.items() if name not in ("trl", "datasets", "deepspeed")
    } == taken


def test_a_torch_without_a_build_for_the_cpu_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires(folder, "torch==2.9.0")
    monkeypatch.setattr(cpu_torch.sys, "platform", "linux")
    monkeypatch.setattr(cpu_torch.hardware, "has_gpu", lambda: False)
    found = completed(folder)
    assert "torch" not in found.choice.versions
    assert found.notes[0] == (
        "no index that can be reached has torch 2.9.0 (requirements.txt) for the CPU: torch 2.13.0 is taken; "
        "--torch 2.9.0 installs its CUDA packages, too"
    )
    monkeypatch.setattr(cpu_torch.hardware, "has_gpu", lambda: True)
    assert completed(folder).choice.versions["torch"] == "2.9.0"


def test_a_pin_of_a_commit_before_a_release_takes_the_release(folder: Path) -> None:
    requires(folder, "transformers==4.40.0.dev0")
    assert completed(folder).choice.versions["transformers"] == "4.40.0"


def test_a_pin_that_is_too_old_gives_way_to_the_nearest(folder: Path) -> None:
    requires(folder, "torch==2.0.1", "transformers==4.2.1", "accelerate>=99")
    found = completed(folder)
    assert {name: found.choice.versions[name] for name in ("torch", "transformers")} == {
        "torch": "2.3.1",
        "transformers": "4.37.2",
    }
    assert found.notes[:3] == (
        "torch==2.0.1 (requirements.txt) is too old to be measured: 2.3.1 is the oldest",
        "transformers==4.2.1 (requirements.txt) is too old to be measured: 4.37.2 is the oldest",
        "no release is accelerate>=99 (requirements.txt): accelerate 1.15.0 is taken",
    )


@pytest.mark.parametrize("choice", [Choice(stack="transformers-4"), Choice(versions={"torch": "2.6.0"})])
def test_the_projects_pins_leave_what_the_user_compares_alone(folder: Path, choice: Choice) -> None:
    requires(folder, "transformers==4.40.0")
    versions = completed(folder, choice).choice.versions
    assert versions.keys() - {"trl", "datasets"} == choice.versions.keys()


def test_a_program_that_uses_no_deepspeed_is_measured_with_one_release(folder: Path) -> None:
    (folder / "train.py").write_text("import torch\n")
    found = completed(folder)
    assert found.choice.baseline is not None
    package, _, release = found.choice.baseline.partition("==")
    assert (package, found.choice.versions) == ("deepspeed", {"deepspeed": release})
    assert re.fullmatch(r"0\.\d+\.\d+", release)
    assert found.notes == (
        "it uses no deepspeed, so one stack is measured; --transformers A,B or --torch A,B compares releases",
    )


def test_as_of_a_day_the_one_release_beside_compared_ones_is_not_named() -> None:
    """It may be a later one, in place of one of the day that does not run with the others, and naming that is refused."""
    choice = Choice(versions={"trl": "0.5.0,0.7.4"})
    settings = Settings(as_of="2023-11-15")
    wanted = program_stack._Wanted(choice, "deepspeed", settings, cast(Installer, cast(Any, Index())))
    wanted.take_one_release(program_stack.OneRelease(package="deepspeed", release="0.14.4", compares=True))
    assert (wanted.choice(), wanted.notes) == (choice, ["it uses no deepspeed: each stack has deepspeed 0.14.4"])


def test_a_program_whose_other_package_is_compared_is_not_told_that_one_stack_is_measured(folder: Path) -> None:
    (folder / "train.py").write_text("import torch\n")
    (note,) = completed(folder, Choice(versions={"trl": "0.19.1,1.0.0"})).notes
    assert re.fullmatch(r"it uses no deepspeed: each stack has deepspeed 0\.\d+\.\d+", note)


@pytest.mark.parametrize(
    ("choice", "release"),
    [
        (Choice(versions={"deepspeed": "0.16.4"}), "0.16.4"),
        (Choice(versions={"deepspeed": "0.16.4", "torch": "2.6.0"}), "0.16.4"),
        (Choice(versions={"deepspeed": "0.16.4,0.16.8"}), "0.16.4"),
        (Choice(versions={"deepspeed": "0.16.8,0.16.4"}, baseline="deepspeed==0.16.8"), "0.16.8"),
        (Choice(stack="transformers-4"), "0.19.8"),
    ],
)
def test_releases_of_a_deepspeed_that_a_program_does_not_use_are_measured_once(
    folder: Path, choice: Choice, release: str
) -> None:
    (folder / "train.py").write_text("import torch\n")
    found = completed(folder, choice)
    planned = pipeline.plan_stacks(
        Settings(environments=str(folder / ".dsregress")), found.choice, cast(Installer, cast(Any, Index()))
    )
    assert [stack.versions["deepspeed"] for stack in planned.stacks] == [release]
    several = "," in choice.versions.get("deepspeed", "")
    assert any("--as-given measures each" in note for note in found.notes) == several


@pytest.mark.parametrize(
    ("source", "line", "choice"),
    [
        ("import torch", "torchrun train.py", Choice(versions={"deepspeed": "0.16.4,0.16.8"}, baseline="0.16.8")),
        ("import torch", "torchrun train.py", Choice(versions={"deepspeed": "0.16.4"}, baseline="0.15.0")),
        ("def train():\n    import own", "torchrun train.py", Choice(versions={"deepspeed": "0.16.4,0.16.8"})),
        ("import torch", "trl sft", Choice(versions={"deepspeed": "0.16.4,0.16.8", "trl": "1.0.0"})),
        ("import torch", "torchrun train.py", Choice(versions={"deepspeed": "0.16.4,0.16.8", "on-deepspeed": "1.0"})),
    ],
)
def test_named_releases_are_measured_if_the_program_or_one_of_its_packages_may_use_them(
    folder: Path, source: str, line: str, choice: Choice
) -> None:
    (folder / "own.py").write_text("import deepspeed\n")
    (folder / "train.py").write_text(f"{source}\n")
    found = completed(folder, choice, line)
    assert (found.choice, found.notes) == (choice, ())


@pytest.mark.parametrize(
    ("line", "file", "content"),
    [
        ("deepspeed train.py", "x", ""),
        ("torchrun train.py --deepspeed ds.json", "x", ""),
        ("accelerate launch --config_file zero.yaml train.py", "zero.yaml", "distributed_type: DEEPSPEED\n"),
        ("torchrun train.py --config=a.json", "a.json", '{"deepspeed": "ds.json"}'),
        ("torchrun train.py config=large", "conf/model/large.yaml", "strategy: deepspeed_stage_3\n"),
        ("torchrun train.py", "own.py", "def f():\n    import deepspeed\n"),
    ],
)
def test_deepspeed_is_used_by_a_launcher_an_option_settings_or_a_module_of_its_own(
    tmp_path: Path, line: str, file: str, content: str
) -> None:
    (tmp_path / "train.py").write_text("import torch, own\n")
    (tmp_path / "unused.yaml").write_text("deepspeed: ds.json\n")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert completed(tmp_path, line=line).choice == Choice()


def test_existing_interpreters_stay_as_they_are(folder: Path) -> None:
    given = Choice(pythons=("/opt/python",))
    assert completed(folder, given).choice == given


APPENDS = """
import os, sys
import deepspeed
sys.path.append(os.path.join(os.getcwd(), 'peft/src/'))
from peft import LoraConfig
"""


@pytest.mark.parametrize(
    ("required", "place", "note"),
    [
        (
            (),
            "peft/src",
            "imports the peft of peft/src, by PYTHONPATH=peft/src: the stack is without its own, as the project requires "
            "none",
        ),
        (("peft",), "peft/src", None),
        ((), "other/src", None),
        (("peft",), ".", "imports the peft of its folder, not peft 0.21.2 of the stack"),
        ((), ".", "imports the peft of its folder: the stack is without its own, as the project requires none"),
    ],
)
def test_a_package_of_its_own_is_the_one_that_its_readme_would_import(
    folder: Path, required: tuple[str, ...], place: str, note: str | None
) -> None:
    (folder / "train.py").write_text(APPENDS)
    requires(folder, *required)
    (folder / place / "peft").mkdir(parents=True)
    (folder / place / "peft" / "__init__.py").touch()
    found = completed(folder)
    assert found.notes == ((note,) if note else ())
    assert found.searched == (("peft/src",) if note and "PYTHONPATH" in note else ())
    assert found.choice.left_out == (("peft",) if note and "is without" in note else ())


@pytest.mark.parametrize(
    "readme",
    [
        "```bash\npip install -e peft\n```",
        "```\ngit clone https://github.com/someone/its-name && cd its-name\ncd peft && pip install . --no-deps\n```",
    ],
)
def test_a_package_of_its_own_that_its_readme_installs_is_imported(folder: Path, readme: str) -> None:
    (folder / "train.py").write_text("import deepspeed\nfrom peft import LoraGAConfig\n")
    (folder / "README.md").write_text(readme)
    (folder / "peft" / "src" / "peft").mkdir(parents=True)
    (folder / "peft" / "src" / "peft" / "__init__.py").touch()
    assert completed(folder).searched == ()
    (folder / "peft" / "setup.py").touch()
    found = completed(folder)
    assert found.searched == ("peft/src",)
    assert found.choice.left_out == ("peft",)


def test_a_torchvision_of_another_torch_gives_way_before_limits_are_held(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed\nimport of_old_torch\nimport torchvision\n")
    requires(folder, "of-old-torch<0.2", "torchvision==0.17.1")
    versions = completed(folder).choice.versions
    assert (versions["of-old-torch"], versions["torchvision"]) == ("0.1", "0.28.0")


def test_a_package_that_excludes_the_stacks_torchvision_is_taken_within_its_limits_too(folder: Path) -> None:
    (folder / "train.py").write_text("import deepspeed\nimport of_old_vision\n")
    requires(folder, "of-old-vision<0.2")
    assert completed(folder).choice.versions["of-old-vision"] == "0.1"


@pytest.mark.parametrize(("said", "taken"), [("of-old-torch", "0.2"), ("of-old-torch>=0.1,<0.2", "0.1")])
def test_a_package_that_excludes_the_torch_of_the_stack_is_taken_all_the_same_within_its_limits(
    folder: Path, said: str, taken: str
) -> None:
    (folder / "train.py").write_text("import deepspeed\nimport of_old_torch\n")
    requires(folder, said)
    found = completed(folder)
    assert found.choice.versions["of-old-torch"] == taken
    assert found.notes == (
        "none goes with the stack by what it requires, and is taken all the same: of-old-torch depends on torch<2.10",
        f"adds of-old-torch {taken}; --with PACKAGE=VERSION takes another release",
    )


def test_an_environment_is_without_the_package_that_the_project_has_itself() -> None:
    settings = Settings(stacks={"older": {"peft": "0.17.1", "transformers": "4.57.6"}})
    choice = Choice(stack="older", left_out=("peft",))
    nothing: Any = SimpleNamespace(published=None)
    planned = pipeline.plan_stacks(settings, choice, nothing)
    assert all("peft" not in stack.versions for stack in planned.stacks)
    assert planned.baseline.versions["transformers"] == "4.57.6"
