"""What is the machine's fault, by exception, signal and text; and what only looks like it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.probe.border import machine


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (errno.ENOSPC, machine.DISK_FULL),
        (errno.EDQUOT, machine.DISK_FULL),
        (errno.EIO, machine.DISK_FAILS),
        (errno.EROFS, machine.READ_ONLY),
        (errno.EMFILE, machine.OPEN_FILES),
        (errno.ENFILE, machine.OPEN_FILES),
        (errno.ENOMEM, machine.MEMORY),
        (errno.EAGAIN, machine.PROCESSES),
        (errno.ENETUNREACH, machine.NETWORK),
        (errno.ENOENT, ""),
        (errno.EACCES, ""),
        (errno.ECONNRESET, ""),
    ],
)
def test_an_error_of_the_kernel_is_the_machines_by_its_number(number: int, fault: str) -> None:
    assert machine.of_error(OSError(number, os.strerror(number))) == fault
    assert machine.in_message(f"error: {os.strerror(number)} (os error {number})") == fault
    assert machine.in_message(f"OSError: [Errno {number}] some other words") == fault


def test_what_an_error_was_raised_from_counts() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as full:
            raise RuntimeError("cannot write the kernel cache") from full
    except RuntimeError as error:
        assert machine.of_error(error) == machine.DISK_FULL


def test_what_was_handled_before_counts_and_what_was_suppressed_does_not() -> None:
    def failure(suppress: bool) -> BaseException:
        try:
            try:
                raise OSError(errno.EMFILE, "Too many open files")
            except OSError:
                if suppress:
                    raise ImportError("no module named x") from None
                raise ImportError("no module named x")  # noqa: B904 (a release writes it so)
        except ImportError as error:
            return error

    assert machine.of_error(failure(suppress=False)) == machine.OPEN_FILES
    assert machine.of_error(failure(suppress=True)) == ""


def test_a_circle_of_causes_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert machine.of_error(first) == ""


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (
            RuntimeError("Error building extension 'cpu_adam': [1/3] c++\nas: out.o: No space left on device"),
            machine.DISK_FULL,
        ),
        (
            subprocess.CalledProcessError(
                1, "ninja", stderr=b"c++: fatal error: Killed signal terminated program cc1plus"
            ),
            machine.MEMORY,
        ),
        (subprocess.CalledProcessError(-9, "nvcc"), machine.KILLED),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "), machine.KILLED),
        (RuntimeError("unable to write to file </torch_1_2>: No space left on device (28)"), machine.DISK_FULL),
        (RuntimeError("can't start new thread"), machine.PROCESSES),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), machine.NO_TEMPORARY),
        (ImportError("/x/site-packages/tinyframe/_C.so: file too short"), machine.DAMAGED),
        (EOFError("marshal data too short"), machine.DAMAGED),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), machine.UNMAPPED),
        (ImportError("/x/_C.so: cannot open shared object file: No such file or directory"), ""),
        (OSError("Max retries exceeded with url: /api (Caused by NameResolutionError)"), machine.NETWORK),
        (RuntimeError("tensor has no attribute 'ds_grads_remaining'"), ""),
        (RuntimeError("Connection reset by peer"), ""),
        (AssertionError("5 tensors are left"), ""),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "ninja"), ""),
    ],
)
def test_what_a_program_prints_counts(error: BaseException, fault: str) -> None:
    assert machine.of_error(error) == fault


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("tried to allocate 2.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
            "allocate 400 bytes. Error code 12 (Cannot allocate memory)"
        ),
        SystemError("error return without exception set"),
        SystemError("<built-in function exec> returned NULL without setting an exception"),
    ],
)
def test_a_refused_request_is_the_machines_where_it_has_no_memory_to_spare(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory_is_short", lambda: False)
    assert machine.of_error(error) == ""
    monkeypatch.setattr(machine, "memory_is_short", lambda: True)
    assert machine.of_error(error) == machine.MEMORY


def test_the_memory_of_a_card_is_not_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_is_short", lambda: True)
    assert machine.of_error(OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")) == ""


def test_a_limit_on_memory_leaves_none_to_spare() -> None:
    program = (
        "import resource; from dsregress.probe.border import machine; before = machine.memory_is_short();"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)); print(before, machine.memory_is_short())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "True"


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (signal.SIGKILL, machine.KILLED),
        (signal.SIGTERM, machine.KILLED),
        (signal.SIGXFSZ, machine.FILE_SIZE),
        (signal.SIGSEGV, ""),
        (signal.SIGABRT, ""),
    ],
)
def test_signals_from_outside_are_not_the_releases(number: signal.Signals, fault: str) -> None:
    how = f"the probe's server killed by {number.name}"
    assert machine.of_death(how, "", "/") == fault
    assert machine.in_message(how) == fault


def test_a_disk_with_next_to_nothing_left_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk(free: int, files: int = 1000) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 10**6, free, free, 10**6, files, files, 0, 255))

    for state, full in ((disk(15), True), (disk(10**5), False), (disk(10**5, files=0), True)):
        monkeypatch.setattr(os, "statvfs", lambda folder, state=state: state)
        assert machine.disk_is_full(tmp_path) is full
        fault = machine.DISK_FULL if full else ""
        assert machine.of_death("ended with exit code 1", "", tmp_path) == fault
        assert machine.of_death("killed by SIGBUS", "", tmp_path) == fault
        assert machine.of_death("killed by SIGSEGV", "", tmp_path) == ""


def test_what_a_process_printed_before_it_ended_counts_but_for_networks() -> None:
    full, lost = "as: out.o: No space left on device", "WARNING: Max retries exceeded with url: /api"
    assert machine.of_death("ended with exit code 1", full, "/") == machine.DISK_FULL
    assert machine.of_death("killed by SIGABRT", full, "/") == machine.DISK_FULL
    assert machine.of_death("killed by SIGSEGV", full, "/") == ""
    assert machine.of_death("ended with exit code 1", lost, "/") == ""


def test_every_fault_says_what_to_do() -> None:
    faults = {value for name, value in vars(machine).items() if name.isupper() and isinstance(value, str)}
    assert faults == set(machine.REMEDIES)


def test_a_clock_that_python_cannot_count_is_the_machines() -> None:
    assert machine.of_error(OverflowError("timestamp too large to convert to C _PyTime_t")) == machine.CLOCK
    assert machine.of_error(OverflowError("timestamp out of range for platform time_t")) == ""


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly",
        "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. ",
        "BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.",
        "RuntimeError: One of the subprocesses has abruptly died during map operation.",
        "TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated.",
    ],
)
def test_a_process_that_is_lost_while_the_kernel_kills_for_memory_is_the_machines(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "kernel_out_of_memory_kills", lambda: 3)
    assert machine.of_lost_process(message, kills_before=2) == machine.MEMORY
    assert machine.of_lost_process(message, kills_before=3) == ""
    assert machine.of_lost_process("ValueError: another failure", kills_before=2) == ""


def test_a_loaders_worker_without_shared_memory_is_the_machines() -> None:
    said = "DataLoader worker (pid 12) is killed by signal: Bus error. "
    said += "It is possible that dataloader's workers are out of shared memory."
    assert machine.of_error(RuntimeError(said)) == machine.DISK_FULL
