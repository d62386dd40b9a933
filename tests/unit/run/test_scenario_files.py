"""Scenario files are read by a process that must answer for each of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dsregress.errors import UsageError
from dsregress.probe.scenario import find, load
from dsregress.run import scenario_files
from tests.paths import ROOT

SOUND = """
from dsregress.probe.scenario import Scenario
print("read")
SCENARIO = Scenario(version=1, summary="s", framework="frames.adapter", parameters={"a": (1, 2.0)}, devices={"cpu": {}})
"""


@pytest.mark.slow
def test_they_are_those_of_the_files() -> None:
    folder = ROOT / "scenarios"
    found = scenario_files.declared_scenarios(folder)
    assert found.keys() == find(folder).keys()
    for name, file in find(folder).items():
        for device in found[name].devices:
            for variant in found[name].variant_ids:
                assert found[name].resolve(variant, device) == load(file).resolve(variant, device)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os; os._exit(0)", "cannot be loaded: ended with exit code 0; "),
        ("import os; os.kill(os.getpid(), 11)", "cannot be loaded: killed by SIGSEGV; "),
        ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0; "),
        pytest.param(
            "import time; time.sleep(60)", "cannot be loaded: did not end within 5 s; ", marks=pytest.mark.slow
        ),
        (SOUND.replace("version=1", "version='1'"), "Expected `int`, got `str`"),
        ("", "has no SCENARIO = Scenario(...); "),
    ],
)
def test_a_file_that_gives_no_answer_is_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], code: str, why: str
) -> None:
    if "sleep" in code:
        monkeypatch.setattr(scenario_files, "_LONGEST_S", 5)
    for name, text in (("a", SOUND), ("b", code), ("c", SOUND)):
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(UsageError) as caught:
        scenario_files.declared_scenarios(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/b.py: {why}")
    assert capfd.readouterr().out == ""


def test_what_a_file_prints_is_not_printed_by_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sound.py").write_text(SOUND)
    assert scenario_files.declared_scenarios(tmp_path)["sound"].parameters == {"a": [1, 2.0]}
    assert capfd.readouterr().out == ""


FORKS = (
    SOUND
    + """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), file=open(PID, "w"), flush=True)
        time.sleep(600)
    os._exit(0)
while not os.path.exists(PID) or not open(PID).read():
    time.sleep(0.01)
"""
)


def test_a_process_that_a_file_leaves_ends_with_it_and_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "forks.py").write_text(f"PID = {str(pid)!r}\n{FORKS}")
    begun = time.monotonic()
    assert scenario_files.declared_scenarios(tmp_path).keys() == {"forks"}
    assert time.monotonic() - begun < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_relative_folder_is_one_of_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "ours.py").write_text(
        "from dsregress.probe.program import program\nSCENARIO = program(version=1, line='python train.py', folder='mine')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert scenario_files.declared_scenarios(tmp_path / "scenarios")["ours"].folder == str(tmp_path / "mine")
