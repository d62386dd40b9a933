"""What is done after a first run of a program that ended in a line which says what to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from dsregress.model import Failed, MachineFault, OutOfMemory, Passed, Stack
from dsregress.probe.border import machine
from dsregress.probe.border.detail_lines import refused_by
from dsregress.probe.border.masking import without_secrets
from dsregress.run.available_workloads import Program
from dsregress.run.pipeline import Choice
from dsregress.run.program_remedies import Attempt, OfItsDay, Remedy, remedy_of
from dsregress.versions.stack_plans import NEWEST_THAT_FITS

STACK = Stack(python="3.11", versions={"torch": "2.13.0", "transformers": "5.24.0", "deepspeed": "0.16.8"})
STACKS = {
    "transformers-4": {"transformers": "4.57.6"},
    "older": {"transformers": "3.5.1"},
    "torch": {"torch": "2.6.0"},
}
GIVEN = Attempt(program=Program(line="python train.py --lr 1", folder="/x"), choice=Choice(), stacks=STACKS)


def of_no_day(packages: Collection[str]) -> OfItsDay:
    return OfItsDay("", {})


def after(signature: str, attempt: Attempt = GIVEN, stage: str = "import") -> Remedy | None:
    return remedy_of(Failed(stage, signature), attempt, STACK, of_no_day)


def remedied(signature: str, attempt: Attempt = GIVEN, stage: str = "import") -> tuple[Attempt, str]:
    found = after(signature, attempt, stage)
    assert found is not None
    return found.attempt, found.line


def changed(attempt: Attempt, **fields: Any) -> Attempt:
    return msgspec.structs.replace(attempt, program=msgspec.structs.replace(attempt.program, **fields))


LACKS = "CannotRun: train.py lacks the modules 'wandb', 'git': add --with wandb --with gitpython"


def test_modules_that_it_lacks_are_added_once() -> None:
    more, line = remedied(LACKS)
    assert more == msgspec.structs.replace(
        GIVEN, choice=Choice(versions={"wandb": "", "gitpython": ""}), added=("wandb", "gitpython")
    )
    assert line == "adds wandb, gitpython, which it lacks when it runs"
    assert after(LACKS, more) is None


def test_what_a_package_imports_and_does_not_require_is_added() -> None:
    said = "ModuleNotFoundError: No module named 'cv2' (trl/trainer/grpo_trainer.py:<module>)"
    more, line = remedied(said, stage="init")
    assert more.added == ("opencv-python-headless",)
    assert line == (
        "adds opencv-python-headless, which a package imports and does not require (trl/trainer/grpo_trainer.py)"
    )
    assert after(said, more, "init") is None
    assert after("ModuleNotFoundError: No module named 'trl.models' (trl/x.py:<module>)", GIVEN, "init") is None


def test_a_module_that_it_lacks_comes_in_the_release_that_its_project_pins() -> None:
    attempt = msgspec.structs.replace(GIVEN, others={"wandb": "0.13.5", "rich": ""})
    more, _ = remedied(LACKS, attempt)
    assert more.choice.versions == {"wandb": "0.13.5", "gitpython": ""}
    assert more.pinned == ("wandb",)


EXCLUDED = "no solution: peft>=0.21.2 depends on accelerate>=0.21.0 and you require accelerate==0.20.3"


def test_a_usual_package_that_excludes_the_named_release_is_left_out_until_it_is_lacked() -> None:
    stack = Stack(python="3.11", versions={**STACK.versions, "accelerate": "0.20.3", "peft": "0.21.2"})
    named = msgspec.structs.replace(GIVEN, choice=Choice(versions={"accelerate": "0.20.3,0.29.3"}))
    found = remedy_of(Failed("install", EXCLUDED), named, stack, of_no_day)
    assert found is not None
    assert found.line == f"leaves out peft, which was not named: {EXCLUDED}"
    assert found.attempt.choice == Choice(versions=named.choice.versions, left_out=("peft",))
    lacking, _ = remedied("CannotRun: train.py lacks the module 'peft': add --with peft", found.attempt)
    assert lacking.choice.versions["peft"] == ""
    both = msgspec.structs.replace(named, choice=Choice(versions={**named.choice.versions, "peft": "0.21.2"}))
    assert remedy_of(Failed("install", EXCLUDED), both, stack, of_no_day) is None


def test_packages_for_which_the_line_has_no_room_are_added_with_the_others() -> None:
    said = "CannotRun: `pip install lightning[app]`: give --with arrow"
    found = remedy_of(
        Failed("import", said, f"...\n{said}\nAll 2: give --with arrow --with click=8.1.7\n"), GIVEN, STACK, of_no_day
    )
    assert found is not None
    assert found.attempt.choice.versions == {"arrow": "", "click": "8.1.7"}
    assert (found.attempt.added, found.attempt.pinned) == (("arrow", "click"), ("click",))


@pytest.mark.parametrize(
    "said",
    [
        "CannotRun: train.py lacks the module 'unknown': add its package with --with PACKAGE",
        "ValueError: give --with evil --synthetic-data --ranks 2 (train.py:3)",  # a program's own words
        "CannotRun: give --with torch",  # which every stack has
    ],
)
def test_a_line_that_names_no_package_or_is_not_ours_has_no_remedy(said: str) -> None:
    assert after(said) is None


@pytest.mark.parametrize("outcome", [Passed(), OutOfMemory("step"), Failed("step", "ValueError: x")])
def test_what_passed_or_failed_by_itself_has_no_remedy(outcome: Any) -> None:
    assert remedy_of(outcome, GIVEN, STACK, of_no_day) is None


def test_the_rest_of_what_the_project_requires_is_added_for_a_module_of_another_name() -> None:
    said = "CannotRun: train.py lacks the module 'dac': add its package with --with PACKAGE"
    attempt = msgspec.structs.replace(
        GIVEN,
        choice=Choice(versions={"trl": "0.9.6"}),
        added=("trl",),
        others={"descript-audio-codec": "", "jiwer": "3.0.0"},
    )
    more, line = remedied(said, attempt)
    assert more.choice.versions == {"descript-audio-codec": "", "jiwer": "3.0.0", "trl": "0.9.6"}
    assert (more.added, more.pinned) == (("trl", "descript-audio-codec", "jiwer"), ("jiwer",))
    assert line == ("train.py lacks the module 'dac': adds what else its project requires: descript-audio-codec, jiwer")
    assert after(said, more) is None
    many = msgspec.structs.replace(attempt, others={f"package{n}": "" for n in range(30)})
    assert after(said, many) is None


def test_rows_are_made_up() -> None:
    said = "NotHere: train.py:5: the data set a/b is not on this machine: give --synthetic-data for made-up rows"
    more, line = remedied(said)
    assert more == changed(GIVEN, synthetic_data=True)
    assert line == "train.py:5: the data set a/b is not on this machine: its rows are made up (--synthetic-data)"
    assert after(said, more) is None


def test_initial_weights_stay_in_place_of_those_of_an_absent_file() -> None:
    said = (
        "CannotRun: vae.py:464: there is no kl16.ckpt where the program is launched: give --synthetic-data to keep initial "
        "weights, or put it there"
    )
    more, line = remedied(said)
    assert more == changed(GIVEN, synthetic_data=True)
    assert line == (
        "vae.py:464: there is no kl16.ckpt where the program is launched: the model keeps its initial weights "
        "(--synthetic-data)"
    )


def test_a_known_model_takes_the_place_of_an_absent_folder_of_its_name() -> None:
    more, line = remedied(
        "CannotRun: train.py:5: there is no .../Qwen2.5-7B on this machine: give --synthetic-data for the shapes of "
        "Qwen/Qwen2.5-7B, or put it there"
    )
    assert more == changed(GIVEN, synthetic_data=True)
    assert line == (
        "train.py:5: there is no .../Qwen2.5-7B on this machine: Qwen/Qwen2.5-7B, whose name it has, takes its place "
        "(--synthetic-data)"
    )


def test_it_runs_as_the_ranks_that_it_starts_itself_unless_its_user_named_others() -> None:
    said = "CannotRun: train.py starts 2 ranks, on as many GPUs: give --ranks 2"
    more, line = remedied(said)
    assert more == changed(GIVEN, ranks=2)
    assert line == "runs as 2 ranks, which it starts itself (--ranks)"
    assert after(said, changed(GIVEN, ranks=1)) is None


@pytest.mark.parametrize(
    ("line", "with_path"),
    [
        ("python train.py --lr 1", "PYTHONPATH=src python train.py --lr 1"),
        ("A=b PYTHONPATH=lib torchrun train.py", "A=b PYTHONPATH=src:lib torchrun train.py"),
    ],
)
def test_modules_of_its_own_are_found(line: str, with_path: str) -> None:
    said = "CannotRun: train.py imports 'own' of the folder src: write PYTHONPATH=src before the line"
    more, words = remedied(said, changed(GIVEN, line=line))
    assert more.program.line == with_path
    assert words == "runs with PYTHONPATH=src, as it imports modules of its own from there"
    assert after(said, more) is None


@pytest.mark.parametrize(
    ("line", "launched"),
    [
        ("python train.py --lr 1", "torchrun train.py --lr 1"),
        ("A=b python3 -u -m own.train", "A=b torchrun -m own.train"),
        ("/opt/bin/python3.11 train.py", "torchrun train.py"),
    ],
)
def test_a_program_that_asks_for_its_rank_is_launched(line: str, launched: str) -> None:
    said = "CannotRun: train.py asks for its rank, and no launcher gives it one: start it by torchrun or deepspeed"
    more, words = remedied(said, changed(GIVEN, line=line))
    assert more.program.line == launched
    assert words == f"is started by {launched}, as it asks for its rank"
    assert after(said, more) is None


def test_a_program_that_does_not_know_the_launchers_local_rank_is_started_by_torchrun() -> None:
    said = "ProgramError: main.py exits with 2: DINO: error: unrecognized arguments: --local-rank=0"
    old = changed(GIVEN, line="X=1 python -u -m torch.distributed.launch --nproc_per_node=8 main.py --arch vit")
    more, line = remedied(said, old, "init")
    assert more.program.line == "X=1 torchrun --nproc_per_node=8 main.py --arch vit"
    assert line.startswith("is started by torchrun, as it does not know the --local-rank")
    unlaunched = after(said, changed(GIVEN, line="python main.py"), "init")
    assert unlaunched is None or unlaunched.attempt.program.line == "python main.py"


def test_an_added_package_that_cannot_be_installed_is_left_out_and_not_added_again() -> None:
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions={"decord": "0.6.0", "trl": "0.24.0"}), added=("decord",)
    )
    more, line = remedied("decord 0.6.0 cannot be built", attempt, "install")
    assert (more.choice.versions, more.left_out) == ({"trl": "0.24.0"}, ("decord",))
    assert line == "leaves out decord, which cannot be installed here: decord 0.6.0 cannot be built"
    assert after("CannotRun: train.py lacks the module 'decord': add --with decord", more) is None
    assert after("trl 0.24.0 cannot be built", attempt, "install") is None  # its user named it
    assert after("decord-ext cannot be built", attempt, "install") is None


def test_pins_that_cannot_be_installed_give_way_to_the_newest_before_a_package_is_left_out() -> None:
    versions = {"scipy": "1.4.1", "librosa": "0.7.2", "pandas": "2.0.0"}
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions=versions), added=("scipy", "librosa", "pandas"), pinned=("scipy", "librosa")
    )
    more, line = remedied("build of scipy: NameError: x", attempt, "install")
    assert more.choice.versions == {"scipy": "", "librosa": "0.7.2", "pandas": "2.0.0"}
    assert line == ("takes the newest scipy: what it pins cannot be installed (build of scipy: NameError: x)")
    more, line = remedied("build of pandas: NameError: x", more, "install")
    assert more.choice.versions == {"scipy": "", "librosa": "", "pandas": "2.0.0"}
    less, _ = remedied("build of scipy: NameError: x", more, "install")
    assert less.choice.versions == {"librosa": "", "pandas": "2.0.0"}


def test_an_added_package_whose_build_downloads_gives_way_as_one_that_cannot_be_built_does() -> None:
    pinned = msgspec.structs.replace(GIVEN, added=("beir",), pinned=("beir",), choice=Choice(versions={"beir": "1.0"}))
    included = "help: `pytrec-eval` (v0.5) was included because `beir` (v1.0) depends on `pytrec-eval`"
    cannot = MachineFault("install", machine.BUILD_DOWNLOAD, "build of pytrec-eval: URLError", included)
    newest = remedy_of(cannot, pinned, STACK, of_no_day)
    assert newest is not None
    assert newest.attempt.choice.versions == {"beir": ""}
    without = remedy_of(cannot, newest.attempt, STACK, of_no_day)
    assert without is not None
    assert (without.attempt.choice.versions, without.attempt.left_out) == ({}, ("beir",))
    assert without.line == "leaves out beir, which cannot be installed here: build of pytrec-eval: URLError"
    assert remedy_of(msgspec.structs.replace(cannot, fault=machine.NETWORK), pinned, STACK, of_no_day) is None


def test_a_key_that_no_server_sees_is_given_and_other_variables_are_the_users() -> None:
    said = "CannotRun: a.py:1 reads the variables {0}, which are not set: write {1} before the line"
    attempt, line = remedied(said.format("API_KEY, HF_TOKEN", "API_KEY=VALUE HF_TOKEN=VALUE"))
    assert attempt.program.line == "API_KEY=unused HF_TOKEN=unused python train.py --lr 1"
    assert line == "runs with API_KEY=unused HF_TOKEN=unused, which a run without network sends nowhere"
    assert after(said.format("API_KEY", "API_KEY=VALUE"), attempt) is None
    masked, _ = remedied(without_secrets(said.format("OPENAI_API_KEY", "OPENAI_API_KEY=VALUE")))
    assert masked.program.line == "OPENAI_API_KEY=unused python train.py --lr 1"
    assert after(said.format("API_KEY, ENTITY", "API_KEY=VALUE ENTITY=VALUE")) is None


def test_a_program_that_reads_which_cards_there_are_has_one_for_each_rank() -> None:
    said = "CannotRun: a.py:1 reads the variable {0}, which is not set: write {0}=VALUE before the line"
    said = said.format("CUDA_VISIBLE_DEVICES")
    attempt, line = remedied(said, changed(GIVEN, line="torchrun --nproc-per-node 4 train.py"))
    assert attempt.program.line == "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc-per-node 4 train.py"
    assert line == "runs with CUDA_VISIBLE_DEVICES=0,1,2,3, as a machine of several users sets it"
    assert after(said, attempt) is None
    assert remedied(said)[0].program.line == "CUDA_VISIBLE_DEVICES=0 python train.py --lr 1"


def test_a_dependency_that_lost_what_an_added_package_imports_is_of_that_packages_day() -> None:
    stack = msgspec.structs.replace(STACK, versions={**STACK.versions, "pytorch-lightning": "1.4.2"})
    given = msgspec.structs.replace(GIVEN, added=("pytorch-lightning",), pinned=("pytorch-lightning",))
    asked: list[tuple[str, str, str]] = []

    def of_day(*about: str) -> OfItsDay:
        asked.append((about[0], about[1], about[2]))
        return OfItsDay("2021-07-27", {"torchmetrics": "0.4.1"}, "pytorch-lightning 1.4.2")

    said = "cannot import name 'get_num_classes' from 'torchmetrics.utilities.data' (torchmetrics/utilities/data.py)"
    failed = Failed("init", f"ImportError: {said} (pytorch_lightning/metrics/utils.py:<module>)")
    found = remedy_of(failed, given, stack, of_no_day, of_day)
    assert found is not None
    assert asked == [("pytorch-lightning", "1.4.2", "torchmetrics")]
    assert found.attempt.choice.versions == {"torchmetrics": "0.4.1"}
    assert found.line == (
        "pytorch-lightning 1.4.2, of 2021-07-27, imports what torchmetrics has no longer: takes torchmetrics 0.4.1, of that "
        "day"
    )
    again = remedy_of(failed, found.attempt, stack, of_no_day, of_day)
    assert again is None or "torchmetrics" not in again.line
    unknown = remedy_of(failed, msgspec.structs.replace(given, added=()), stack, of_no_day, of_day)
    assert unknown is None or "torchmetrics" not in unknown.line


def test_what_is_absent_from_the_machine_is_so_with_any_release_of_the_package_that_says_it() -> None:
    stack = msgspec.structs.replace(STACK, versions={**STACK.versions, "spacy": "3.8.18"})
    given = msgspec.structs.replace(GIVEN, added=("spacy",))
    for error, is_tried in (("OSError", False), ("ValueError", True)):
        failed = Failed("init", f"{error}: [E050] Can't find model 'en_core_web_sm' (spacy/util.py:load_model)")
        assert (remedy_of(failed, given, stack, of_2025) is not None) == is_tried


def of_2025(packages: Collection[str]) -> OfItsDay:
    return OfItsDay("2025-03-02", {"transformers": "4.49.0"} if "transformers" in packages else {})


def test_pins_that_do_not_go_with_the_newest_packages_stay_with_those_of_their_day() -> None:
    attempt = msgspec.structs.replace(GIVEN, choice=Choice(versions={"trl": "0.14.0"}), added=("trl",), pinned=("trl",))
    conflict = Failed("install", "no solution: trl==0.14.0 depends on transformers<5")
    found = remedy_of(conflict, attempt, STACK, of_2025)
    assert found is not None
    assert found.attempt.choice.versions == {"trl": "0.14.0", "transformers": "4.49.0"}
    found = remedy_of(conflict, found.attempt, STACK, of_2025)
    assert found is not None
    assert found.attempt.choice.versions == {"trl": "", "transformers": "4.49.0"}


@pytest.mark.parametrize(
    ("said", "is_mended"),
    [
        ("train.py exits with 2: train.py: error: argument --bf16: expected one argument", True),
        ("train.py exits with 2: train.py: error: unrecognized arguments: --overwrite_output_dir", True),
        ("train.py exits with 1: error: argument", False),
    ],
)
def test_arguments_that_the_newest_packages_refuse_are_given_to_those_of_the_last_commit(
    said: str, is_mended: bool
) -> None:
    found = remedy_of(Failed("init", f"ProgramError: {said}"), GIVEN, STACK, of_2025)
    assert (found is not None and found.attempt.choice.versions.get("transformers") == "4.49.0") is is_mended


def test_a_module_of_the_name_of_a_required_package_is_added_alone() -> None:
    others = {"an-image-kit": "0.4.0", **{f"other{number}": "" for number in range(40)}}
    more, _ = remedied(
        "CannotRun: train.py lacks the module 'an_image_kit': add its package with --with PACKAGE",
        msgspec.structs.replace(GIVEN, others=others),
    )
    assert more.choice.versions == {"an-image-kit": "0.4.0"}


@pytest.mark.parametrize(("module", "package"), [("patoolib", "patool"), ("dotenv", "python-dotenv"), ("jaxtypes", "")])
def test_a_module_whose_name_begins_as_one_required_package_does_is_added_alone(module: str, package: str) -> None:
    others = {"patool": "", "python-dotenv": "", "jaxt": "", "jaxtyping": "", "jaxtypes-a": ""}
    said = f"CannotRun: train.py lacks the module '{module}': add its package with --with PACKAGE"
    more, _ = remedied(said, msgspec.structs.replace(GIVEN, others=others))
    assert {*more.choice.versions} == ({package} if package else {*others})


def test_packages_that_nothing_pins_are_taken_of_the_day_of_the_last_commit() -> None:
    stack = Stack(
        python="3.11",
        versions={
            "torch": "2.13.0",
            "transformers": "5.24.0",
            "accelerate": "1.15.0",
            "peft": "0.21.2",
            "trl": "1.16.0",
        }
        | {"datasets": "2.16.1", "torchvision": "0.28.0", "deepspeed": "0.16.8"},
    )
    attempt = msgspec.structs.replace(
        GIVEN,
        choice=Choice(
            versions={"accelerate": "1.15.0", "trl": "1.16.0", "datasets": "2.16.1", "torchvision": "0.28.0"}
        ),
        added=("trl", "datasets", "torchvision"),
        pinned=("datasets",),
        fixed=("accelerate",),
    )
    asked: list[Collection[str]] = []

    def of_its_day(packages: Collection[str]) -> OfItsDay:
        asked.append(packages)
        return OfItsDay("2024-05-07", {"transformers": "4.40.2", "peft": "0.21.2", "trl": "0.8.6"})

    said = "ImportError: cannot import name 'x' from 'trl.import_utils' (trl/import_utils.py)"
    lacks = Failed("init", f"{said} (trainer.py:28)")
    found = remedy_of(lacks, attempt, stack, of_its_day)
    assert found is not None
    assert asked == [["transformers", "peft", "trl"]]
    assert found.attempt.choice.versions == {
        **attempt.choice.versions,
        "transformers": "4.40.2",
        "trl": "0.8.6",
        "torchvision": "",
    }
    assert found.line == (
        f"fails with the newest packages ({said}): takes those of its last commit, of 2024-05-07: transformers 4.40.2, "
        "trl 0.8.6"
    )
    assert remedy_of(lacks, found.attempt, stack, of_its_day) is None
    of_its_own = Failed("forward", "RuntimeError: shapes do not fit (train.py:3)")
    assert remedy_of(of_its_own, attempt, stack, of_its_day) is None


def test_packages_of_the_compared_releases_day_give_way_to_the_stack_with_the_older_transformers() -> None:
    def of_its_day(packages: Collection[str]) -> OfItsDay:
        return OfItsDay("2026-02-01", {"transformers": "5.1.0", "peft": "0.18.0"}, "deepspeed 0.18.5")

    lacks = Failed("init", NO_NAME)
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions={"deepspeed": "0.18.4,0.18.5"}), fixed=("deepspeed",)
    )
    newest = msgspec.structs.replace(STACK, versions={**STACK.versions, "transformers": "5.24.0", "peft": "0.21.2"})
    found = remedy_of(lacks, attempt, newest, of_its_day)
    assert found is not None
    assert found.line.endswith("takes those of deepspeed 0.18.5, of 2026-02-01: transformers 5.1.0, peft 0.18.0")
    older = msgspec.structs.replace(STACK, versions={**STACK.versions, "transformers": "5.1.0", "peft": "0.18.0"})
    found = remedy_of(lacks, found.attempt, older, of_its_day)
    assert found is not None
    assert found.attempt.choice == Choice(stack="transformers-4", versions={"deepspeed": "0.18.4,0.18.5"})


def test_a_newer_transformers_than_the_project_pins_is_taken_for_what_the_pin_lacks() -> None:
    stack = msgspec.structs.replace(STACK, versions={**STACK.versions, "transformers": "4.49.0", "peft": "0.14.0"})
    versions = {"deepspeed": "0.16.8", "transformers": "4.49.0", "peft": "0.14.0", "trl": "0.17.0", "pillow": "12.3.0"}
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions=versions), added=("trl", "pillow"), pinned=("transformers", "peft", "trl")
    )
    said = "ImportError: cannot import name 'Glm4v' from 'transformers' (transformers/__init__.py)"
    lacks = Failed("init", f"{said} (glm_module.py:1)")
    found = remedy_of(lacks, attempt, stack, of_no_day)
    assert found is not None
    assert found.attempt.choice == Choice(
        stack="transformers-4", versions={"deepspeed": "0.16.8", "trl": "0.17.0", "pillow": ""}
    )
    assert found.line == (
        f"its project pins transformers 4.49.0, which has not yet what it imports ({said}): takes 4.57.6 "
        "(--stack transformers-4)"
    )
    assert remedy_of(lacks, found.attempt, stack, of_no_day) is None
    named = msgspec.structs.replace(attempt, pinned=("peft", "trl"), fixed=("transformers",))
    assert remedy_of(lacks, named, stack, of_no_day) is None


def test_a_dependency_that_lost_a_name_is_taken_in_its_last_release_that_has_it() -> None:
    said = "ImportError: cannot import name 'cached_download' from 'huggingface_hub' (huggingface_hub/__init__.py)"
    more, line = remedied(said, stage="init")
    assert (more.choice.versions, more.added) == ({"huggingface-hub": "0.25.2"}, ("huggingface-hub",))
    assert line.endswith(": takes huggingface-hub 0.25.2")
    named = msgspec.structs.replace(GIVEN, choice=Choice(versions={"numpy": "2.4.0"}), stacks={})
    assert after("AttributeError: module 'numpy' has no attribute 'bool' (train.py:3)", named, "step") is None


def test_the_release_of_a_dependency_that_a_remedy_took_stays_with_the_packages_of_the_day() -> None:
    gone = "AttributeError: `np.float_` was removed in the NumPy 2.0 release. (numpy/__init__.py:__getattr__)"
    attempt = msgspec.structs.replace(GIVEN, choice=Choice(versions={"timm": ""}), added=("timm",))
    older, _ = remedied(gone, attempt, "init")
    assert older.choice.versions == {"timm": "", "numpy": "1.26.4"}
    lacks = "ImportError: cannot import name 'x' from 'transformers' (transformers/__init__.py)"
    found = remedy_of(Failed("init", lacks), older, STACK, of_2025)
    assert found is not None
    assert found.attempt.choice.versions["numpy"] == "1.26.4"
    assert found.attempt.choice.versions["timm"] == ""


def test_a_name_that_numpy_lost_with_its_second_version_is_in_its_last_release_before_that() -> None:
    more, _ = remedied(
        "AttributeError: module 'numpy' has no attribute 'bool8' (numpy/__init__.py:__getattr__)", GIVEN, "init"
    )
    assert more.choice.versions == {"numpy": "1.26.4"}


def test_a_package_that_was_built_for_numpys_first_version_gets_its_last_release() -> None:
    said = (
        "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from "
        "PyObject (pandas/_libs/__init__.py:<module>)"
    )
    assert remedied(said)[0].choice.versions == {"numpy": "1.26.4"}


def test_packages_of_its_day_are_no_remedy_for_a_name_of_a_package_whose_release_stays() -> None:
    def of_its_day(packages: Collection[str]) -> OfItsDay:
        return OfItsDay("2024-05-07", {name: "2.3.0" for name in packages if name in ("transformers", "torch")})

    stack = msgspec.structs.replace(STACK, versions={**STACK.versions, "torchvision": "0.28.0", "align": "1.0.0"})
    attempt = msgspec.structs.replace(
        GIVEN,
        choice=Choice(versions={"torchvision": "0.28.0", "align": "1.0.0"}),
        added=("torchvision",),
        fixed=("align",),
        stacks={},
    )
    gone = Failed("init", "ImportError: cannot import name 'mask' from 'align' (align/__init__.py) (utils.py:2)")
    assert remedy_of(gone, attempt, stack, of_its_day) is None
    gone = Failed("init", "ImportError: cannot import name 'x' from 'torchvision.io' (torchvision/io.py) (utils.py:2)")
    found = remedy_of(gone, attempt, stack, of_its_day)
    assert found is not None
    assert found.attempt.choice.versions == {"torch": "2.3.0", "torchvision": "", "align": "1.0.0"}


def test_the_torch_of_the_day_of_the_last_commit_is_taken_last() -> None:
    def of_its_day(packages: Collection[str]) -> OfItsDay:
        return OfItsDay("2024-05-07", {"torch": "2.3.0"} if packages == ("torch",) else {})

    lacks = Failed(
        "init", "TypeError: LRScheduler.__init__() got an unexpected keyword argument 'verbose' (train.py:28)"
    )
    attempt = msgspec.structs.replace(GIVEN, stacks={})
    found = remedy_of(lacks, attempt, STACK, of_its_day)
    assert found is not None
    assert found.attempt.choice.versions == {"torch": "2.3.0"}
    assert "takes 2.3.0, of its last commit, of 2024-05-07" in found.line
    assert remedy_of(lacks, found.attempt, STACK, of_its_day) is None
    compared = msgspec.structs.replace(attempt, compared={"deepspeed": "0.16.4,0.16.8"})
    found = remedy_of(lacks, compared, STACK, of_its_day)
    assert found is not None  # else torch 2.3.0 would be compared with the configured release
    assert found.attempt.choice.versions == {"deepspeed": "0.16.4,0.16.8", "torch": "2.3.0"}
    named = msgspec.structs.replace(attempt, choice=Choice(versions={"torch": "2.13.0"}))
    assert remedy_of(lacks, named, STACK, of_its_day) is None


NO_NAME = "ImportError: cannot import name 'X' from 'transformers' (transformers/__init__.py) (train.py:3)"


def test_the_configured_stack_with_the_older_transformers_is_taken() -> None:
    versions = {"datasets": "5.2.0", "trl": "0.9.6"}
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions=versions), added=("datasets", "trl"), pinned=("trl",)
    )
    more, line = remedied(NO_NAME, attempt)
    assert more.choice == Choice(stack="transformers-4", versions={"datasets": "", "trl": "0.9.6"})
    assert line == (
        "fails with transformers 5.24.0 (ImportError: cannot import name 'X' from 'transformers' "
        "(transformers/__init__.py)): takes 4.57.6 (--stack transformers-4)"
    )
    assert after(NO_NAME, more) is None


@pytest.mark.parametrize(
    "attempt",
    [
        msgspec.structs.replace(GIVEN, choice=Choice(versions={"transformers": "5.24.0"})),
        msgspec.structs.replace(GIVEN, stacks={}),
    ],
)
def test_a_named_transformers_stays(attempt: Attempt) -> None:
    assert after(NO_NAME, attempt) is None


def test_an_error_of_the_programs_own_is_no_reason_for_another_transformers() -> None:
    assert after("RuntimeError: shapes do not fit (train.py:3)", stage="forward") is None
    assert after("RuntimeError: shapes do not fit (peft/tuners/lora.py:forward)", stage="forward") is None
    assert after("TypeError: f() got an unexpected argument (train.py:3)", stage="init") is not None
    assert after("ValueError: no such model (transformers/modeling_utils.py:load)", stage="init") is not None


def test_a_program_of_fewer_steps_is_measured_in_its_last_one() -> None:
    said = (
        "ProgramError: train.py ended after 1 optimizer step, and 2 are needed: give it more data or epochs, or measure its "
        "last one with --steps 0"
    )
    more, line = remedied(said, stage="step")
    assert more == changed(GIVEN, steps=0)
    assert (
        line == "takes 1 optimizer step: its only one, which allocates the optimizer's state, is measured (--steps 0)"
    )
    assert after(said, more, stage="step") is None
    assert after("ProgramError: train.py exits with 2: give --ranks 2, or --with evil", stage="init") is None


LOST_NAME = (
    "ImportError: cannot import name 'InstructTokenizerBase' from 'mistral_common.tokens.tokenizers' "
    "(finetune/checkpointing.py:<module>)"
)


def test_the_oldest_release_that_a_project_allows_is_taken_of_a_package_that_lost_a_name() -> None:
    stack = Stack(python="3.11", versions={**STACK.versions, "mistral-common": "1.11.3"})
    attempt = msgspec.structs.replace(
        GIVEN,
        choice=Choice(versions={"mistral-common": "1.11.3"}),
        added=("mistral-common",),
        oldest={"mistral-common": "1.3.1"},
    )
    found = remedy_of(Failed("init", LOST_NAME), attempt, stack, of_no_day)
    assert found is not None
    assert found.attempt.choice.versions["mistral-common"] == "1.3.1"
    assert found.line.endswith("takes 1.3.1, the oldest that its project allows")
    older = msgspec.structs.replace(stack, versions={**stack.versions, "mistral-common": "1.3.1"})
    assert remedy_of(Failed("init", LOST_NAME), found.attempt, older, of_no_day) is None
    assert remedy_of(Failed("init", LOST_NAME), msgspec.structs.replace(attempt, oldest={}), stack, of_no_day) is None


def test_a_pin_that_needs_what_torch_has_lost_gives_way_to_the_newest_release() -> None:
    lost = (
        "ImportError: cannot import name 'ForkingPickler' from 'torch.multiprocessing.reductions' "
        "(torch/multiprocessing/reductions.py) (tensordict/memmap.py:<module>)"
    )
    stack = Stack(python="3.11", versions={**STACK.versions, "tensordict": "0.5.0"})
    attempt = msgspec.structs.replace(
        GIVEN, choice=Choice(versions={"tensordict": "0.5.0"}), added=("tensordict",), pinned=("tensordict",)
    )
    found = remedy_of(Failed("init", lost), attempt, stack, of_no_day)
    assert found is not None
    assert found.attempt.choice.versions == {"tensordict": NEWEST_THAT_FITS}
    assert found.attempt.pinned == ()
    assert found.line.endswith("takes its newest release")
    assert remedy_of(Failed("init", lost), msgspec.structs.replace(attempt, pinned=()), stack, of_no_day) is None
    named = msgspec.structs.replace(attempt, choice=Choice(versions={"tensordict": "0.5.0", "torch": "2.5.1"}))
    assert remedy_of(Failed("init", lost), named, stack, of_no_day) is None


def test_a_pin_that_does_not_take_the_programs_call_gives_way_to_the_release_of_its_last_commit() -> None:
    said = "TypeError: LoraConfig.__init__() got an unexpected keyword argument 'use_dora' (train_lora.py:512)"
    refused = Failed("init", said, refused_by("peft"))
    stack = Stack(python="3.11", versions={**STACK.versions, "peft": "0.6.2"})
    attempt = msgspec.structs.replace(GIVEN, choice=Choice(versions={"peft": "0.6.2"}), pinned=("peft",))

    def of_its_day(packages: Collection[str]) -> OfItsDay:
        return OfItsDay("2024-10-31", {"peft": "0.13.2"} if "peft" in packages else {})

    found = remedy_of(refused, attempt, stack, of_its_day)
    assert found is not None
    assert found.attempt.choice.versions["peft"] == "0.13.2"
    assert found.line == (
        "its project pins peft 0.6.2, which does not take its call (TypeError: LoraConfig.__init__() got an unexpected "
        "keyword argument 'use_dora'): takes 0.13.2, of its last commit, of 2024-10-31"
    )
    others = [
        remedy_of(refused, found.attempt, stack, of_its_day),
        remedy_of(refused, attempt, stack, of_no_day),
        remedy_of(Failed("init", said), attempt, stack, of_its_day),  # whose call that is, is not known
    ]
    assert [one for one in others if one is not None and "its project pins" in one.line] == []


def test_an_option_that_transformers_has_lost_takes_the_last_release_that_has_it() -> None:
    refused = (
        "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--evaluation_strategy', "
        "(transformers/hf_argparser.py:parse_args_into_dataclasses)"
    )
    attempt, line = remedied(refused, stage="init")
    assert attempt.choice.versions == {"transformers": "4.45.2"}
    assert line.endswith(": takes transformers 4.45.2")
    assert after(refused.replace("evaluation", "another"), stage="init") != after(refused, stage="init")
