"""Real forked ranks: rounds, crashes, deaths, hangs, and nothing left behind."""

from __future__ import annotations

import faulthandler
import os
import runpy
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.probe.border import machine
from dsregress.probe.border.machine import DISK_FULL, KILLED
from dsregress.probe.border.wire import RoundCost
from dsregress.probe.harness_fault import HarnessFault
from dsregress.probe.process import silent_work, whereabouts
from dsregress.probe.process.channel import Channel
from dsregress.probe.process.ranks import CellEnded, EnoughRounds, Ranks, TimedRound
from vgpu.allocator.model import AllocatorSettings, CachingAllocator

Body = Callable[[int, Channel], None]

#: Of a round of one rank.
COST = {"processor_s": 0.5, "page_faults": 10, "waits": 2, "preemptions": 1}


def start(body: Body, folder: Path, world_size: int = 2, timeout_s: float = 20.0) -> Ranks:
    return Ranks(body, range(world_size), world_size, folder, {}, timeout_s)


def dutiful(rank: int, channel: Channel) -> None:
    channel.send({"at": "stage", "stage": "forward"})
    channel.send({"at": "measured", "imported": []})
    while True:
        channel.receive()
        channel.send({"at": "round", "seconds": {"forward": 0.5 + rank}, "cost": COST})


def ended(body: Body, folder: Path, timeout_s: float = 20.0) -> CellEnded:
    with start(body, folder, timeout_s=timeout_s) as ranks, pytest.raises(CellEnded) as caught:
        ranks.measured()
    return caught.value


def test_a_round_is_as_slow_as_its_slowest_rank(tmp_path: Path) -> None:
    with start(dutiful, tmp_path, world_size=3) as ranks:
        ranks.measured()
        together = RoundCost(processor_s=1.5, page_faults=30, waits=6, preemptions=3)
        assert ranks.round() == TimedRound(seconds={"forward": 2.5}, cost=together, clocks=None, discarded=0)


def test_a_program_that_has_run_its_last_step_has_no_round_left(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "measured", "imported": []})
        channel.receive()
        channel.send({"at": "over"})

    with start(body, tmp_path) as ranks:
        ranks.measured()
        with pytest.raises(EnoughRounds):
            ranks.round()


def on_a_card(*throttled: bool) -> Body:
    """Ranks on cards that tell their clocks: rank 0's is throttled in these rounds, in order."""

    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "measured", "imported": []})
        for number, hot in enumerate(throttled):
            channel.receive()
            hot = hot and rank == 0
            clocks = {
                "sm_mhz": 1410 - rank,
                "memory_mhz": 1593,
                "reasons": ["hardware_thermal"] * hot,
                "throttled": hot,
            }
            channel.send({"at": "round", "seconds": {"forward": float(number)}, "cost": COST, "clocks": clocks})
        channel.receive()

    return body


def test_a_throttled_round_is_thrown_away_and_run_again(tmp_path: Path) -> None:
    with start(on_a_card(False, True, True, False), tmp_path) as ranks:
        ranks.measured()
        first, second = ranks.round(), ranks.round()
    assert (first.seconds, first.discarded) == ({"forward": 0.0}, 0)
    assert (second.seconds, second.discarded) == ({"forward": 3.0}, 2)
    assert second.clocks is not None
    assert (second.clocks.throttled, second.clocks.sm_mhz) == (False, 1409)


def test_a_card_that_stays_throttled_says_so(tmp_path: Path) -> None:
    with start(on_a_card(True, True, True), tmp_path) as ranks:
        ranks.measured()
        kept = ranks.round()
    assert kept.discarded == 2
    assert kept.clocks is not None
    assert kept.clocks.throttled
    assert kept.clocks.reasons == ["hardware_thermal"]


def test_ranks_know_who_they_are(tmp_path: Path) -> None:
    def tell(rank: int, channel: Channel) -> None:
        (tmp_path / f"{rank}").write_text(" ".join(os.environ[n] for n in ("RANK", "WORLD_SIZE", "LOCAL_SIZE")))
        dutiful(rank, channel)

    with start(tell, tmp_path) as ranks:
        ranks.measured()
    assert (tmp_path / "1").read_text() == "1 2 2"


def test_a_crash_has_its_stage_and_signature(tmp_path: Path) -> None:
    def crash(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "backward"})
        raise RuntimeError("no hook")

    fault = ended(crash, tmp_path)
    assert (fault.outcome, fault.stage, fault.signature) == ("failed", "backward", "RuntimeError: no hook")


@pytest.mark.parametrize(
    "error", ["Connection closed by peer", "NCCL error in: ProcessGroupNCCL.cpp:1275, remote process exited"]
)
def test_the_rank_that_failed_by_itself_is_blamed_not_the_one_that_lost_its_peer(tmp_path: Path, error: str) -> None:
    def crash(rank: int, channel: Channel) -> None:
        if rank == 0:
            raise RuntimeError(error)
        time.sleep(0.3)
        raise ValueError("the real reason")

    assert ended(crash, tmp_path).signature == "ValueError: the real reason"


def test_out_of_memory_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    def grow(rank: int, channel: Channel) -> None:
        raise MemoryError("no more")

    assert ended(grow, tmp_path).outcome == "out_of_memory"


def test_a_rank_killed_by_a_signal_is_named_with_it(tmp_path: Path) -> None:
    def die(rank: int, channel: Channel) -> None:
        faulthandler.disable()  # pytest's, which would print all stacks of it into the tests' own log
        os.kill(os.getpid(), signal.SIGSEGV)

    fault = ended(die, tmp_path)
    assert (fault.outcome, fault.signature) == ("failed", "killed by SIGSEGV")


def test_a_rank_killed_from_outside_is_no_fault_of_the_release(tmp_path: Path) -> None:
    def die(rank: int, channel: Channel) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    fault = ended(die, tmp_path)
    assert (fault.outcome, fault.machine_fault, fault.signature) == ("machine_fault", KILLED, "killed by SIGTERM")


def test_a_full_disk_on_one_rank_is_the_end_of_the_cell_whatever_the_others_say(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        if rank == 1:
            time.sleep(0.2)
            raise OSError(28, "No space left on device")
        raise ValueError("the weights of the other rank are missing")

    fault = ended(body, tmp_path)
    assert (fault.outcome, fault.machine_fault) == ("machine_fault", DISK_FULL)


def test_a_slip_of_the_probe_itself_is_the_harness_failing_and_no_crash_of_what_is_measured(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "backward"})
        CachingAllocator(AllocatorSettings()).free(7)

    fault = ended(body, tmp_path)
    assert (fault.outcome, fault.stage) == ("failed", "harness")
    assert fault.signature.startswith("KeyError: 7 (vgpu/allocator/model.py:")


def test_an_oracle_that_breaks_is_the_harness_failing_also_for_want_of_memory(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "harness"})
        raise HarnessFault("the memory oracle broke: OutOfMemoryError: CUDA out of memory")

    fault = ended(body, tmp_path)
    assert (fault.outcome, fault.stage) == ("failed", "harness")
    assert fault.signature == "HarnessFault: the memory oracle broke: OutOfMemoryError: CUDA out of memory"


def test_an_oracle_that_hangs_is_no_timeout_of_what_is_measured(tmp_path: Path) -> None:
    def hang(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "harness"})
        time.sleep(600)

    fault = ended(hang, tmp_path, timeout_s=0.5)
    assert (fault.outcome, fault.stage) == ("failed", "harness")


def test_a_rank_that_hangs_is_timed_out_and_reaped(tmp_path: Path) -> None:
    def hang(rank: int, channel: Channel) -> None:
        (tmp_path / f"pid-{rank}").write_text(str(os.getpid()))
        channel.send({"at": "stage", "stage": "step"})
        time.sleep(600)

    fault = ended(hang, tmp_path, timeout_s=0.5)
    assert (fault.outcome, fault.stage, fault.signature) == ("timed_out", "step", "no sign of life for 0.5 s in step")
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid-{rank}").read_text()), 0)


def test_of_ranks_that_hang_it_says_which_ones_are_where(tmp_path: Path) -> None:
    framework = tmp_path / "lib" / "site-packages" / "framework"
    framework.mkdir(parents=True)
    (framework / "comm.py").write_text(
        "import time\ndef gather():\n time.sleep(600)\ndef reduce():\n time.sleep(600)\n"
    )
    (framework / "engine").mkdir()
    (framework / "engine" / "zero.py").write_text(
        "def step(comm, rank):\n comm.reduce() if rank == 1 else comm.gather()\n"
    )

    def body(rank: int, channel: Channel) -> None:
        comm, zero = (runpy.run_path(str(framework / name)) for name in ("comm.py", os.path.join("engine", "zero.py")))
        channel.send({"at": "stage", "stage": "step"})
        zero["step"](SimpleNamespace(**comm), rank)

    with start(body, tmp_path, world_size=3, timeout_s=1.0) as ranks, pytest.raises(CellEnded) as caught:
        ranks.measured()
    assert caught.value.whereabouts == [
        "ranks 0 and 2: framework/comm.py:gather, called by framework/engine/zero.py:step",
        "rank 1: framework/comm.py:reduce, called by framework/engine/zero.py:step",
    ]


@pytest.fixture
def collective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A call of torch's that waits for ever, in a process that looks for deadlocks soon."""
    monkeypatch.setattr(whereabouts, "DEADLOCK_S", 0.6)
    monkeypatch.setattr(whereabouts, "_BETWEEN_LOOKS_S", 0.3)
    torch = tmp_path / "lib" / "site-packages" / "torch" / "distributed"
    torch.mkdir(parents=True)
    (torch / "distributed_c10d.py").write_text("import time\ndef all_reduce():\n time.sleep(600)\n")
    wait: Callable[[], None] = runpy.run_path(str(torch / "distributed_c10d.py"))["all_reduce"]
    return wait


def test_ranks_that_wait_for_one_another_are_not_waited_for(tmp_path: Path, collective: Callable[[], None]) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "step"})
        collective()

    fault = ended(body, tmp_path)
    assert (fault.outcome, fault.stage) == ("deadlocked", "step")
    assert fault.whereabouts == ["ranks 0 and 1: distributed_c10d.py:all_reduce"]


@pytest.mark.parametrize(("busy", "outcome"), [(False, "timed_out"), (True, "still_working")])
def test_ranks_that_wait_for_one_that_does_something_else_are(
    tmp_path: Path, collective: Callable[[], None], busy: bool, outcome: str
) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "step"})
        while rank:
            if not busy:
                time.sleep(600)
        collective()

    assert ended(body, tmp_path, timeout_s=1.0).outcome == outcome


def compute_in_a_process_of_its_own(for_s: float) -> None:
    if not os.fork():
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            pass
        os._exit(0)


def test_a_rank_that_waits_for_its_data_workers_is_waited_for_while_they_compute(tmp_path: Path) -> None:
    def load(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "init"})
        compute_in_a_process_of_its_own(for_s=2.5)
        time.sleep(2.6)
        channel.send({"at": "measured", "imported": []})

    beats: list[str] = []
    with Ranks(load, range(2), 2, tmp_path, {}, 0.5, beats.append) as ranks:
        ranks.measured()
    assert len(beats) >= 4  # so that the cell is not taken for hung either


def test_a_rank_whose_data_workers_have_ended_without_a_word_is_timed_out(tmp_path: Path) -> None:
    def load(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "init"})
        compute_in_a_process_of_its_own(for_s=0.7)
        time.sleep(600)

    assert ended(load, tmp_path, timeout_s=0.5).outcome == "timed_out"


def test_a_loaders_worker_that_the_kernel_killed_for_memory_is_no_failure_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([2, 3, 3])
    monkeypatch.setattr(machine, "kernel_out_of_memory_kills", lambda: next(kills))

    def load(rank: int, channel: Channel) -> None:
        raise RuntimeError("DataLoader worker (pid(s) 12) exited unexpectedly")

    fault = ended(load, tmp_path)
    assert (fault.outcome, fault.machine_fault) == ("machine_fault", machine.MEMORY)


def test_a_rank_with_a_gpu_may_only_wait_for_it_while_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_work, "_GPUS", (str(tmp_path / "gpu"),))

    def wait_for_the_gpu(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "backward"})
        with (tmp_path / "gpu0").open("w"):
            while True:
                pass

    assert ended(wait_for_the_gpu, tmp_path, timeout_s=0.5).outcome == "timed_out"


def test_ranks_with_others_on_another_machine_are_given_all_of_their_time_and_waited_for_at_rest(
    tmp_path: Path, collective: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    wait = select.select

    def counted(readable: Any, writable: Any, exceptional: Any, timeout_s: float | None = None) -> Any:
        if timeout_s is not None:  # and not for the rest of a message
            waits.append(timeout_s)
        return wait(readable, writable, exceptional, timeout_s)

    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "step"})
        collective()

    monkeypatch.setattr(select, "select", counted)
    with Ranks(body, [0], 2, tmp_path, {}, 2.0) as ranks, pytest.raises(CellEnded) as caught:
        ranks.measured()
    assert caught.value.outcome == "timed_out"
    assert len(waits) <= 3  # one for its stage, one for the silence, one to see that it does not compute


def test_where_a_rank_is_stays_unknown_once_its_folder_is_gone(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "step"})
        (tmp_path / f"rank-{rank}.stack").unlink()
        time.sleep(600)

    fault = ended(body, tmp_path, timeout_s=0.3)
    assert (fault.outcome, fault.whereabouts) == ("timed_out", [])


def test_a_rank_that_is_stopped_does_not_say_where_it_is(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "step"})
        os.kill(os.getpid(), signal.SIGSTOP)

    fault = ended(body, tmp_path, timeout_s=0.3)
    assert (fault.outcome, fault.whereabouts) == ("timed_out", [])


def test_the_host_hears_of_a_rank_that_works_while_the_first_one_waits_for_it(tmp_path: Path) -> None:
    def body(rank: int, channel: Channel) -> None:
        channel.send({"at": "stage", "stage": "backward" if rank else "step"})
        time.sleep(0.2)
        if rank:
            channel.send({"at": "stage", "stage": "backward"})
        channel.send({"at": "measured", "imported": []})

    beats: list[str] = []
    with Ranks(body, range(2), 2, tmp_path, {}, 20.0, beats.append) as ranks:
        ranks.measured()
    assert len(beats) == 3
    assert beats[-1] == "step"


def test_a_sign_of_life_puts_the_limit_off(tmp_path: Path) -> None:
    def slow(rank: int, channel: Channel) -> None:
        for _ in range(6):
            time.sleep(0.2)
            channel.send({"at": "stage", "stage": "forward"})
        dutiful(rank, channel)

    with start(slow, tmp_path, timeout_s=0.8) as ranks:
        ranks.measured()
