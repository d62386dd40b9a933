"""Ends without a Python error, as launchers, shells and schedulers report them."""

from __future__ import annotations

import pytest

from dsregress.advice.diagnosis.process_ends import EndKind, ProcessEnd, read_process_end

# meta-pytorch/torchtune#2093, shortened
WATCHDOG = (
    "[rank5]:[E1129 11:56:57.205862232 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=28956, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600024 milliseconds\n"
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Fatal Python error: Segmentation fault\n", "SIGSEGV"),
        ("Fatal Python error: Bus error\n", "SIGBUS"),
        ("  traceback : Signal 11 (SIGSEGV) received by PID 22810\n", "SIGSEGV"),
        ("api.py:869] failed (exitcode: -11) local_rank: 0 (pid: 22810) of binary: /usr/bin/python3\n", "SIGSEGV"),
        ("[launch.py:434] ['python', '-u', 'train.py'] exits with return code = -11\n", "SIGSEGV"),
        ("died with <Signals.SIGABRT: 6>.\n", "SIGABRT"),
        ("run.sh: line 3: 4711 Segmentation fault      (core dumped) python train.py\n", "SIGSEGV"),
        ("srun: error: node1: task 0: Bus error (core dumped)\n", "SIGBUS"),
        ("*** Process received signal ***\n[n1:99] Signal: Segmentation fault (11)\n", "SIGSEGV"),
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: x\n", "SIGABRT"),
        ("container exited with code 139\n", "SIGSEGV"),
    ],
)
def test_a_signal_of_a_fault_in_compiled_code(text: str, name: str) -> None:
    found = read_process_end(text)
    assert found is not None
    assert (found.kind, found.signal) == (EndKind.SIGNAL, name)


@pytest.mark.parametrize(
    "text",
    [
        "failed (exitcode: -9) local_rank: 3 (pid: 12347) of binary: python\n",
        "/bin/bash: line 1: 4711 Killed                  python train.py\n",
        "exits with return code = -9\n",
        "RuntimeError: DataLoader worker (pid 3003) is killed by signal: Killed. \n",
        "Process finished with exit code 137\n",
    ],
)
def test_a_process_that_was_killed(text: str) -> None:
    assert read_process_end(text) == ProcessEnd(kind=EndKind.KILLED, signal="SIGKILL")


def test_a_fault_comes_before_the_ranks_that_the_launcher_killed_for_it() -> None:
    found = read_process_end("failed (exitcode: -9) local_rank: 0\nfailed (exitcode: -11) local_rank: 3\n")
    assert found is not None
    assert found.signal == "SIGSEGV"


def test_a_collective_that_a_watchdog_waited_for() -> None:
    text = WATCHDOG + "terminate called after throwing an instance of 'c10::DistBackendError'\nexitcode: -6\n"
    assert read_process_end(text) == ProcessEnd(kind=EndKind.TIMEOUT, collective="ALLREDUCE", waited_s=600.0)


def test_an_operation_of_gloo_that_timed_out() -> None:
    text = "RuntimeError: [unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
    assert read_process_end(text) == ProcessEnd(kind=EndKind.TIMEOUT, collective="recv", waited_s=1800.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sending process 22811 closing signal SIGTERM\n",
        "train.py exited with code 1\n",
        "(1) The process is killed by SIGKILL by OOM killer due to high memory usage.\n",
        "step 139: exit code 0\n",
        "command not found, exit code 127\n",
    ],
)
def test_a_text_that_tells_of_no_end(text: str) -> None:
    assert read_process_end(text) is None
