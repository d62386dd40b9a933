"""Settings: where they come from, and what a person reads when they are wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.config import variables
from dsregress.config.settings import read_settings, selecting
from dsregress.errors import UsageError


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def message(folder: Path, text: str, **overrides: object) -> str:
    with pytest.raises(UsageError) as caught:
        read_settings(overrides, start=project(folder, text), environ={})
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value).replace(str(folder), "")
    return str(caught.value).replace(str(folder), "DIR")


def test_defaults_serve_where_no_project_says_anything(tmp_path: Path) -> None:
    settings = read_settings(start=tmp_path, environ={})
    assert settings.baseline == "0.15.0"
    assert settings.stack["deepspeed"] == ("0.15.0", "0.16.4", "0.16.8", "latest")
    assert settings.results == str(tmp_path / "results")
    assert (Path(settings.scenarios) / "models.py").exists() or Path(settings.scenarios).name == "scenarios"


def test_the_nearest_project_with_a_table_is_found_from_below(tmp_path: Path) -> None:
    project(tmp_path, "[tool.dsregress]\nrounds = 3")
    inner = tmp_path / "package" / "deep"
    inner.mkdir(parents=True)
    project(tmp_path / "package", '[project]\nname = "other"')
    settings = read_settings(start=inner, environ={})
    assert (settings.rounds, settings.root) == (3, str(tmp_path))


def test_flags_win_over_variables_win_over_the_file(tmp_path: Path) -> None:
    project(tmp_path, '[tool.dsregress]\nresults = "from-file"\nenvironments = "from-file"\nrounds = 3')
    variables = {"DSREGRESS_RESULTS": "from-variable", "DSREGRESS_ENVIRONMENTS": "from-variable"}
    settings = read_settings({"results": "from-flag", "rounds": None}, start=tmp_path, environ=variables)
    assert settings.results == str(tmp_path / "from-flag")
    assert settings.environments == str(tmp_path / "from-variable")
    assert settings.rounds == 3


def test_a_named_selection_takes_the_place_of_the_plain_one(tmp_path: Path) -> None:
    project(tmp_path, '[tool.dsregress.selections]\nreported = ["trl*/base/sim"]\nown = ["own/*", "trl*/base/sim"]')
    settings = read_settings(start=tmp_path, environ={})
    assert selecting(settings, ["reported"]).select == ("trl*/base/sim",)
    assert selecting(settings, ["reported", "own"]).select == ("trl*/base/sim", "own/*")
    with pytest.raises(UsageError, match="no such selection: report; did you mean reported"):
        selecting(settings, ["own", "report"])
    hint = "--scenario 'llama3*' --variant zero_stage=3 --device sim"
    with pytest.raises(UsageError, match="is a workload, not a selection") as raised:
        selecting(settings, ["llama3*/zero_stage=3/sim"])
    assert raised.value.hint == hint


def test_a_table_changes_the_default_stack_by_package(tmp_path: Path) -> None:
    project(tmp_path, '[tool.dsregress.stack]\ntorch = "2.5.1"\ndeepspeed = ["0.15.0"]')
    stack = read_settings(start=tmp_path, environ={}).stack
    assert (stack["torch"], stack["deepspeed"], stack["peft"]) == ("2.5.1", ("0.15.0",), "0.21.2")


def test_a_table_with_a_package_of_another_framework_is_the_whole_stack(tmp_path: Path) -> None:
    project(tmp_path, '[tool.dsregress.stack]\ntinyframe = ["1.0.0", "1.1.0"]')
    assert read_settings(start=tmp_path, environ={}).stack == {"tinyframe": ("1.0.0", "1.1.0")}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {"transformers-4"}),
        ('[tool.dsregress.stacks.mine]\ntorch = "2.5.1"', {"transformers-4", "mine"}),
        ('[tool.dsregress.stack]\ntinyframe = ["1.0.0"]', set()),
    ],
)
def test_the_stack_of_transformers_4_goes_with_the_default_one_in_any_project(
    tmp_path: Path, text: str, names: set[str]
) -> None:
    project(tmp_path, text)
    assert read_settings(start=tmp_path, environ={}).stacks.keys() == names


def test_malformed_toml_names_file_and_line(tmp_path: Path) -> None:
    assert message(tmp_path, "[tool.dsregress\n").startswith("DIR/pyproject.toml: not valid TOML: ")
    assert "line 1" in message(tmp_path, "[tool.dsregress\n")


def test_an_unknown_key_is_answered_with_the_nearest(tmp_path: Path) -> None:
    assert message(tmp_path, "[tool.dsregress]\nround = 3") == (
        "DIR/pyproject.toml: [tool.dsregress]: no such key: round; did you mean rounds, warmup_rounds?"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds = 'many'", "[tool.dsregress] rounds: Expected int, got str; write it like 9"),
        ("rounds = -1", "rounds is not from 0 to 10,000; give rounds, e.g. 9"),
        (f"rounds = {10**20}", "rounds"),
        ("warmup_rounds = 10001", "warmup_rounds is not from 0 to 10,000; give rounds, e.g. 2"),
        *((f"timeout_s = {value}", "timeout_s is not above 0, and at most 2,592,000 (30 days); give seconds, e.g. 180")
          for value in ("0", "-1", "inf", "-inf", "nan", "1e300")),
        ('results = "a\\u0000b"', "results has a NUL in it; not a valid file name"),
        ("[tool.dsregress.ray]\nwait_s = nan", "wait_s must be seconds from 0 to 30 days (it is nan)"),
        ("[tool.dsregress.ray]\nwait_s = -1", "wait_s must be seconds from 0 to 30 days (it is -1.0)"),
        ("[tool.dsregress.ray.resources.cpu]\nslot = inf", "resources must be finite amounts, and not negative"),
        (
            "fail_on = ['memori']",
            """fail_on: Invalid enum value 'memori' at [0]; write it like ["memory", "time", "numerics", "crash"]""",
        ),
        ("[tool.dsregress.stack]\ntorch = 2.5", '[tool.dsregress] stack.torch: Expected str | array, got float'),
        ("[tool.dsregress.stacks.mine]\ntorch = 2.5", "[tool.dsregress] stacks.mine: Expected str, got float"),
        ("[tool.dsregress.thresholds]\nmemory = 1", "thresholds: Object contains unknown field memory"),
        ("[tool.dsregress.thresholds]\ntime_share = -1", "thresholds: time_share must not be negative"),
        ("[tool.dsregress.thresholds]\nrounds = 1", "thresholds: rounds must be 2 or more (it is 1)"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_key_and_how_to_write_it(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in message(tmp_path, f"[tool.dsregress]\n{text}")


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "tool.dsregress is not a table" in message(tmp_path, "[tool]\ndsregress = 1")


def test_a_wrong_flag_is_named_as_such(tmp_path: Path) -> None:
    assert message(tmp_path, "", fail_on=["speed"]).startswith("command line: Invalid enum value 'speed'")
    assert message(tmp_path, "", timeout_s=float("inf")).startswith("command line: timeout_s is not above 0")
    assert message(tmp_path, "", results="a\0b").startswith("command line: results has a NUL in it")


def test_a_working_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(UsageError) as error:
        read_settings(environ={})
    assert str(error.value) == (
        "working folder: cannot be found: No such file or directory; change to a folder that exists"
    )


def test_measured_processes_see_no_variable_that_is_not_listed() -> None:
    outside = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "7",
        "PYTHONPATH": "/x",
        "HF_TOKEN": "secret",
        "CUDA_VISIBLE_DEVICES": "1",
    }
    inside = variables.child_environment({"RANK": "0"}, environ=outside)
    assert inside == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "RANK": "0"}


def test_limits_on_the_processors_instructions_reach_measured_processes() -> None:
    assert variables.child_environment(environ={"ONEDNN_MAX_CPU_ISA": "AVX2"}) == {"ONEDNN_MAX_CPU_ISA": "AVX2"}


def test_variables_of_the_stack_that_no_measured_process_gets_are_named() -> None:
    outside = {
        "PATH": "/bin",
        "NCCL_ALGO": "Ring",
        "DS_ACCELERATOR": "cpu",
        "CUDA_VISIBLE_DEVICES": "1",
        "HF_TOKEN": "x",
    }
    assert variables.withheld(environ=outside) == ("DS_ACCELERATOR", "NCCL_ALGO")
    assert variables.withheld(environ={"PATH": "/bin"}) == ()


def test_installers_see_their_own_configuration_besides() -> None:
    outside = {"PATH": "/bin", "PIP_INDEX_URL": "https://mirror/simple", "UV_CACHE_DIR": "/c", "HF_TOKEN": "secret"}
    inside = variables.installer_environment(environ=outside)
    assert inside == {"PATH": "/bin", "PIP_INDEX_URL": "https://mirror/simple", "UV_CACHE_DIR": "/c"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["regress", "report", "compare", "bisect", "stacks"])
def test_a_command_begins_without_what_takes_longer_to_import_than_all_else(command: str) -> None:
    slow = ("docker", "jinja2", "numpy", "ray", "scipy")
    program = f"import sys, dsregress.cli.{command}; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_reading_the_configuration_imports_no_numerics() -> None:
    """It is the first thing that every command does."""
    program = "import sys, dsregress.config.settings; print(sorted({'numpy', 'scipy', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
