"""A worker and its server, with servers that crash, hang, lie and fail to import."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from dsregress.launch import worker as serving
from dsregress.launch.contract import Ended, ProgramLaunch, RunPlan, Waiting
from dsregress.launch.process import ServerProcess
from dsregress.launch.worker import Server, ServerWorker
from dsregress.model import Cell, Failed, MachineFault, OutOfMemory, Passed, TimedOut
from dsregress.probe.border import machine
from dsregress.probe.border.wire import RunRecord
from tests.builders.cells import RANK, cell

PLAN = RunPlan(warmup_rounds=1, rounds=1)

_PASSED = json.dumps(asdict(RunRecord(outcome="passed", ranks=[RANK])))

#: What every server here begins with.
PRELUDE = f"""
import json, os, sys, time
def tell(event, **more): print(json.dumps(dict(event=event, **more)), flush=True)
def command(): return json.loads(sys.stdin.readline() or 'null')
def record(folder): open(folder + '/record.json', 'w').write({_PASSED!r})
"""

GOOD = """
tell('ready', import_s=0.1)
while (told := command()):
    folder = told['folder']
    assert json.load(open(folder + '/request.json'))['rounds'] == 1
    for _ in range(2):
        tell('beat', stage='step')
        tell('waiting')
        if command()['do'] == 'stop': break
    record(folder)
    tell('ended')
"""


def worker(
    folder: Path,
    program: str,
    timeout_s: float = 10.0,
    limited_memory: bool = False,
    programs: Mapping[str, ProgramLaunch] = {},
) -> ServerWorker:
    server = folder / "server.py"
    server.write_text(PRELUDE + program)
    return started([sys.executable, str(server)], folder, timeout_s, limited_memory, programs)


def started(
    command: list[str],
    folder: Path,
    timeout_s: float = 10.0,
    limited_memory: bool = False,
    programs: Mapping[str, ProgramLaunch] = {},
) -> ServerWorker:
    def start_server(home: Path, log: Path) -> ServerProcess:
        return ServerProcess(command, os.environ, str(home), str(log))

    return ServerWorker(start_server, folder / "runs", timeout_s, limited_memory=limited_memory, programs=programs)


def failure(ended: Waiting | Ended) -> Failed:
    assert isinstance(ended, Ended)
    assert isinstance(ended.outcome, Failed)
    return ended.outcome


def fault(ended: Waiting | Ended) -> MachineFault:
    assert isinstance(ended, Ended)
    assert isinstance(ended.outcome, MachineFault)
    return ended.outcome


def test_a_cell_goes_through_its_rounds_and_the_server_takes_the_next(tmp_path: Path) -> None:
    one = worker(tmp_path, GOOD)
    for _ in range(2):
        assert one.start(cell("A"), PLAN) == Waiting()
        assert one.round() == Waiting()
        ended = one.round()
        assert isinstance(ended, Ended)
        assert ended.outcome == Passed()
        assert 0 < ended.duration_s < 10
    one.close()
    one.close()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_cell_can_be_stopped(tmp_path: Path) -> None:
    one = worker(tmp_path, GOOD)
    one.start(cell("A"), PLAN)
    assert one.stop().outcome == Passed()
    one.close()


def test_an_import_that_fails_is_the_outcome_of_every_cell(tmp_path: Path) -> None:
    one = worker(tmp_path, "tell('import_failed', signature='ImportError: x', detail='traceback')")
    for _ in range(2):
        assert failure(one.start(cell("A"), PLAN)) == Failed("import", "ImportError: x", "traceback")
    one.close()


def test_a_worker_that_is_closed_imports_anew(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    one = worker(tmp_path, f"if not os.path.exists({str(flag)!r}): sys.exit(1)\n{GOOD}")
    assert failure(one.start(cell("A"), PLAN)).stage == "import"
    flag.touch()
    assert failure(one.start(cell("A"), PLAN)).stage == "import"
    one.close()
    assert one.start(cell("A"), PLAN) == Waiting()
    one.close()


def test_an_import_that_crashes_tells_the_signal_and_the_log(tmp_path: Path) -> None:
    one = worker(tmp_path, "sys.stderr.write('bus error'); sys.stderr.flush(); os.kill(os.getpid(), 7)")
    assert failure(one.start(cell("A"), PLAN)) == Failed("import", "the import killed by SIGBUS", "bus error")


def test_an_import_on_a_full_disk_is_the_machines_fault(tmp_path: Path) -> None:
    one = worker(
        tmp_path,
        f"tell('import_failed', signature='OSError: x', detail='traceback', machine_fault={machine.DISK_FULL!r})",
    )
    ended = MachineFault("import", machine.DISK_FULL, "OSError: x", "traceback")
    assert fault(one.start(cell("A"), PLAN)) == ended
    one.close()


def test_a_missing_interpreter_is_no_fault_of_the_release(tmp_path: Path) -> None:
    one = started([str(tmp_path / "python")], tmp_path)
    ended = fault(one.start(cell("A"), PLAN))
    assert (ended.stage, ended.fault) == ("import", machine.NO_START)
    assert ended.signature == "its interpreter cannot be started: No such file or directory"


def test_a_machine_that_stands_still_is_not_the_environment_s_fault(tmp_path: Path) -> None:
    def start(folder: Path, log: Path) -> Server:
        raise TimeoutError(errno.ETIMEDOUT, "not in 60 s", "python")

    ended = fault(ServerWorker(start, tmp_path / "runs", 20).start(cell("A"), PLAN))
    assert (ended.stage, ended.fault) == ("import", machine.BUSY)
    assert ended.signature == "its interpreter cannot be started: not in 60 s"


def test_a_full_disk_before_a_cell_starts_is_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str) -> int:
        raise OSError(28, os.strerror(28))

    one = worker(tmp_path, GOOD)
    one.wait_until_open()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        assert fault(one.start(cell("A"), PLAN)).fault == machine.DISK_FULL
    assert one.start(cell("A"), PLAN) == Waiting()
    one.close()


@pytest.mark.parametrize(
    ("limited", "outcome"),
    [
        (False, MachineFault("step", machine.MEMORY, "killed by the kernel: out of memory")),
        (True, OutOfMemory("step", "killed by the kernel: out of memory")),
    ],
)
def test_a_limit_of_its_own_makes_want_of_memory_the_releases(
    tmp_path: Path, limited: bool, outcome: MachineFault | OutOfMemory
) -> None:
    ended = RunRecord(
        outcome="machine_fault",
        stage="step",
        machine_fault=machine.MEMORY,
        signature="killed by the kernel: out of memory",
    )
    program = f"""
tell('ready'); folder = command()['folder']
open(folder + '/record.json', 'w').write({json.dumps(asdict(ended))!r}); tell('ended'); command()
"""
    one = worker(tmp_path, program, limited_memory=limited)
    found = one.start(cell("A"), PLAN)
    assert isinstance(found, Ended)
    assert found.outcome == outcome
    one.close()


def test_a_server_that_is_killed_from_outside_is_replaced_for_the_next_cell(tmp_path: Path) -> None:
    mark = tmp_path / "died"
    program = f"""
if not os.path.exists({str(mark)!r}):
    tell('ready'); command(); open({str(mark)!r}, 'w'); tell('beat', stage='backward'); os.kill(os.getpid(), 9)
"""
    one = worker(tmp_path, program + GOOD)
    lost = MachineFault("backward", machine.KILLED, "the probe's server killed by SIGKILL")
    assert fault(one.start(cell("A"), PLAN)) == lost
    assert one.start(cell("A"), PLAN) == Waiting()
    one.close()


@pytest.mark.parametrize("dies", [True, False])
def test_a_run_whose_folder_something_has_emptied_says_nothing_of_its_release(tmp_path: Path, dies: bool) -> None:
    end = "sys.exit(1)" if dies else "tell('ended')"
    program = f"""
import shutil
tell('ready'); folder = command()['folder']; tell('beat', stage='step')
shutil.rmtree(folder, ignore_errors=True); {end}; time.sleep(0.05)
"""
    one = worker(tmp_path, program)
    assert fault(one.start(cell("A"), PLAN)) == MachineFault("step", machine.REMOVED, "it left no output")
    one.close()


@pytest.mark.parametrize(
    ("death", "how"), [("os.kill(os.getpid(), 11)", "killed by SIGSEGV"), ("sys.exit(3)", "ended with exit code 3")]
)
def test_a_server_that_dies_is_replaced_for_the_next_cell(tmp_path: Path, death: str, how: str) -> None:
    mark = tmp_path / "died"
    program = f"""
if not os.path.exists({str(mark)!r}):
    tell('ready'); command(); open({str(mark)!r}, 'w'); tell('beat', stage='backward'); time.sleep(0.05); {death}
"""
    one = worker(tmp_path, program + GOOD)
    lost = failure(one.start(cell("A"), PLAN))
    assert (lost.stage, lost.signature) == ("backward", f"the probe's server {how}")
    assert one.start(cell("A"), PLAN) == Waiting()
    one.close()


@pytest.mark.slow
def test_a_server_that_hangs_is_killed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_OUTER_GRACE_S", 0.2)
    one = worker(tmp_path, "tell('ready'); command(); tell('beat', stage='forward'); time.sleep(60)", timeout_s=0.3)
    one.wait_until_open()
    ended = one.start(cell("A"), PLAN)
    assert isinstance(ended, Ended)
    assert ended.outcome == TimedOut(stage="forward", limit_s=0.3)


def test_an_interruption_from_another_thread_ends_the_cell(tmp_path: Path) -> None:
    import threading

    one = worker(tmp_path, "tell('ready'); command(); time.sleep(60)")
    one.wait_until_open()
    threading.Timer(0.1, one.interrupt).start()
    assert failure(one.start(cell("A"), PLAN)).signature == "the probe's server was killed by the harness"


DIES = """
tell('ready', import_s=0.1)
command()
print('in /home/me/x: --api_key secret', file=sys.stderr, flush=True)
sys.exit(1)
"""


@pytest.mark.parametrize(
    ("stored", "launched", "requested"),
    [
        ("API_KEY=*** train.py ~/x", "API_KEY=secret train.py /home/me/x", "API_KEY=secret train.py /home/me/x"),
        ("train.py --old", "API_KEY=secret train.py", "train.py --old"),
        ("train.py", "train.py", "train.py"),
    ],
)
def test_a_program_runs_by_the_line_that_no_result_says(
    tmp_path: Path, stored: str, launched: str, requested: str
) -> None:
    one = worker(tmp_path, DIES, programs={"s": ProgramLaunch("/there", launched)})
    lost = failure(one.start(program_cell(stored), PLAN))
    (file,) = (tmp_path / "runs").glob("run-*/request.json")
    request = json.loads(file.read_bytes())
    assert (request["parameters"]["program"], request["program_folder"]) == (requested, "/there")
    assert lost.detail == "in .../x: --api_key ***\n"


def test_a_program_finds_the_files_that_its_script_writes_before_its_line(tmp_path: Path) -> None:
    launch = ProgramLaunch("/there", "train.py", written=(("conf/ds.json", "{}"), ("hosts", "a slots=8")))
    one = worker(tmp_path, DIES, programs={"s": launch})
    failure(one.start(program_cell("train.py"), PLAN))
    (file,) = (tmp_path / "runs").glob("run-*/request.json")
    found = Path(json.loads(file.read_bytes())["found"])
    assert (found / "conf" / "ds.json").read_text() == "{}"
    assert (found / "hosts").read_text() == "a slots=8"


def test_a_stored_line_whose_secret_is_not_known_does_not_run(tmp_path: Path) -> None:
    for programs in ({}, {"s": ProgramLaunch("/there", "train.py --other")}):
        one = worker(tmp_path, DIES, programs=programs)
        ended = failure(one.start(program_cell("API_KEY=*** train.py"), PLAN))
        assert ended.stage == "harness"
        assert ended.signature == (
            "its launch line holds a secret, which is not stored: give the line with --program once more"
        )
        one.close()


def program_cell(line: str) -> Cell:
    plain = cell("A")
    return msgspec.structs.replace(plain, scenario="s", parameters={**plain.parameters, "program": line})


def test_the_debug_log_names_a_server_when_it_is_ready_and_when_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = worker(tmp_path, GOOD)
    with caplog.at_level(logging.DEBUG, logger="dsregress.launch"):
        one.wait_until_open()
        one.close()
    said = [re.sub(r"^server-\w+", "SERVER", record.getMessage()) for record in caplog.records]
    assert said == ["SERVER: ready, its framework is imported", "SERVER: ended"]
