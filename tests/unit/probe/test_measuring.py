"""Host work, phases, configuration and warnings: what is counted, and that it repeats."""

from __future__ import annotations

import logging
import warnings
from enum import Enum

from harness.probe.border.wire import PhaseReading
from harness.probe.meters import noise
from harness.probe.meters.host_work import HostWork
from harness.probe.meters.phases import fold
from harness.probe.workloads.flatten import flatten


def helper() -> int:
    return len("abc")


def counted(times: int) -> dict[str, int]:
    work = HostWork()
    with work:
        for _ in range(times):
            helper()
    return work.functions()


def test_python_and_c_functions_are_counted_to_the_last_call() -> None:
    functions = counted(7)
    own = [calls for name, calls in functions.items() if name.endswith(":helper")]
    assert own == [7]
    assert functions["builtins.len"] == 7


def test_the_same_work_gives_the_same_counts() -> None:
    assert counted(50) == counted(50)


def test_micro_batches_fold_peaks_by_maximum_counts_by_sum_and_keep_the_last_retained() -> None:
    one = PhaseReading(device_peak_bytes=10, device_retained_bytes=8, op_launches=2, collectives={"all_gather": [1, 4]})
    two = PhaseReading(device_peak_bytes=7, device_retained_bytes=3, op_launches=5, collectives={"all_gather": [2, 6]})
    folded = fold(one, two)
    assert (folded.device_peak_bytes, folded.device_retained_bytes, folded.op_launches) == (10, 3, 7)
    assert folded.collectives == {"all_gather": [3, 10]}


def test_a_configuration_of_any_objects_becomes_dotted_scalars() -> None:
    class Kind(Enum):
        CPU = "cpu"

    found = flatten(
        "x", {"zero": {"stage": 3, "device": Kind.CPU, "sizes": [1, 2]}, "_hidden": True, "module": object()}
    )
    assert found == {"x.hidden": True, "x.zero.device": "cpu", "x.zero.sizes": "1, 2", "x.zero.stage": 3}


def test_numbers_that_json_does_not_have_are_spelled_out() -> None:
    assert flatten("x", {"every": float("inf"), "scale": 1.5}) == {"x.every": "inf", "x.scale": 1.5}


def test_warnings_are_heard_by_signature_from_python_and_from_loggers_that_do_not_propagate() -> None:
    logger = logging.getLogger("tests.framework")
    logger.propagate = False
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with noise.heard() as heard:
            warnings.warn("slow for 3 reasons", FutureWarning, stacklevel=1)
            logger.warning("bucket of %d bytes\nmore", 512)
            logger.warning("bucket of %d bytes", 1024)
            logger.info("nothing")
    assert heard == {"FutureWarning: slow for N reasons": 1, "tests.framework: bucket of N bytes": 2}
