"""GPUs as NVML tells of them, and without NVML."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.probe.border.wire import Clocks
from dsregress.probe.gpu import boards


class Driver:
    """What a driver with three GPUs answers, under the names of ``pynvml``."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, bits: int = 0) -> None:
        self.bits = bits
        self.asked: list[Any] = []

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"GPU-{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        self.asked.append(handle)
        return {self.NVML_CLOCK_SM: 1410, self.NVML_CLOCK_MEM: 1593}[kind]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self.bits


class Mute(Driver):
    """A virtual GPU that may not be asked for its clocks."""

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        raise self.NVMLError("Not Supported")


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, []),
        (0x1, ["idle"]),
        (0x4, ["power_cap"]),
        (0x48, ["hardware_slowdown", "hardware_thermal"]),
        (0x1004, ["power_cap", "0x1000"]),
    ],
)
def test_what_slows_a_card_down_has_a_name(bits: int, names: list[str]) -> None:
    assert boards.slowdowns(bits) == names


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [(0x0, False), (0x4, False), (0x1, False), (0x20, True), (0x40, True), (0x8, True), (0x80, True)],
)
def test_heat_and_supply_make_a_round_worthless_and_the_power_cap_does_not(bits: int, throttled: bool) -> None:
    board = boards.board(0, {}, Driver(bits))
    assert board is not None
    clocks = board.clocks()
    assert clocks is not None
    assert clocks.throttled is throttled


def test_a_rank_reads_the_card_that_cuda_gives_it() -> None:
    driver = Driver()
    board = boards.board(1, {"CUDA_VISIBLE_DEVICES": "2,0"}, driver)
    assert board is not None
    assert board.clocks() == Clocks(sm_mhz=1410, memory_mhz=1593, reasons=[], throttled=False)
    assert set(driver.asked) == {"GPU-0"}


def test_a_card_that_does_not_tell_its_clocks_has_none() -> None:
    board = boards.board(0, {}, Mute())
    assert board is not None
    assert board.clocks() is None


def test_a_rank_without_a_card_has_no_board() -> None:
    assert boards.board(3, {}, Driver()) is None


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        (None, ["0", "1", "2"]),
        ("", []),
        ("-1", []),
        ("1", ["1"]),
        ("2, 0", ["2", "0"]),
        ("0,7,1", ["0"]),  # nothing counts behind what is not there
        ("GPU-8932f937-d72c", ["GPU-8932f937-d72c"]),
    ],
)
def test_only_visible_gpus_count(setting: str | None, left: list[str]) -> None:
    assert boards.visible(setting, 3) == left
    environment = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
    assert boards.gpu_count(environment, Driver()) == len(left)
