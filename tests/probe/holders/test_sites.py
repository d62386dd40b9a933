"""Who holds the memory, from a ledger of pretended storages: no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.probe.border.wire import Explanation
from dsregress.probe.holders import categories, sites
from tests.builders.storages import Storage, Tensor, by_category
from vgpu.allocator.model import AllocatorSettings
from vgpu.meters.ledger import DEVICE, HOST, StorageLedger


class Job:
    """A ledger with an observer, driven by hand."""

    def __init__(self, holders: Any = None) -> None:
        self.ledger = StorageLedger()
        framework = SimpleNamespace(holders=holders) if holders else SimpleNamespace()
        self.recorder = sites.SiteRecorder(self.ledger, framework, "tests")
        self.recorder.built(self)

    @contextlib.contextmanager
    def metered(self, name: str) -> Iterator[None]:
        self.ledger.reset_peak()
        yield
        self.ledger.settle()

    def phase(self, name: str) -> Any:
        return self.recorder.phase(name, self.metered)

    def make(self, nbytes: int, memory: int = DEVICE) -> Storage:
        storage = Storage(nbytes)
        self.ledger.add(storage, memory)
        return storage

    def explanation(self) -> Explanation:
        return self.recorder.explanation(rank=0)


def test_every_byte_of_each_moment_is_somebodys() -> None:
    job = Job()
    kept = []
    with job.phase("forward"):
        kept.append(job.make(100))
        job.make(1000)  # let go of at once
        kept.append(job.make(10, HOST))
    with job.phase("backward"):
        kept.append(job.make(7))
        kept.pop(0)
    moments = job.explanation().moments
    assert {key: moment.nbytes for key, moment in moments.items()} == {
        "forward.device_peak_bytes": 1100,
        "forward.device_retained_bytes": 100,
        "forward.host_peak_bytes": 10,
        "forward.host_retained_bytes": 10,
        "backward.device_peak_bytes": 107,
        "backward.device_retained_bytes": 7,
        "backward.host_peak_bytes": 10,
        "backward.host_retained_bytes": 10,
    }
    assert all(moment.nbytes == sum(held.nbytes for held in moment.held) for moment in moments.values())
    assert kept


def test_the_peak_is_what_the_ledger_says_it_is() -> None:
    job = Job()
    sizes = [3, 50, 20, 70, 1]
    with job.phase("step"):
        held = [job.make(size) for size in sizes]
        del held[1], held[2]
        held += [job.make(size) for size in (40, 5)]
        peak = job.ledger.peak[DEVICE]
    assert job.explanation().moments["step.device_peak_bytes"].nbytes == peak


def test_memory_of_a_micro_batch_folds_as_the_metric_does() -> None:
    job = Job()
    held = []
    for size in (30, 5):
        with job.phase("forward"):
            held = [job.make(size)]
        with job.phase("backward"):
            held = []
    moments = job.explanation().moments
    assert moments["forward.device_peak_bytes"].nbytes == 30
    assert moments["forward.device_retained_bytes"].nbytes == 5
    assert [held.born for held in moments["forward.device_retained_bytes"].held] == ["forward 2"]
    assert held == []


def test_a_storage_is_what_the_job_says_it_is_at_every_moment_of_its_life() -> None:
    held: list[Storage] = []
    job = Job(lambda training: [(categories.GATHERED, "layers.3.weight", Tensor(one)) for one in held])
    with job.phase("forward"):
        held.append(job.make(64))
        job.ledger.add(Storage(1), DEVICE)  # made elsewhere
    moments = job.explanation().moments
    assert by_category(moments["forward.device_peak_bytes"])[categories.GATHERED] == 64
    assert moments["forward.device_retained_bytes"].held[0].module == "layers.*.weight"


def test_what_was_gone_before_anybody_looked_is_what_its_birthplace_makes() -> None:
    held: list[Storage] = []
    job = Job(lambda training: [(categories.GATHERED, "", Tensor(one)) for one in held])

    def gather() -> Storage:
        return job.make(64)

    with job.phase("forward"):
        held.append(gather())
        gather()
    moment = job.explanation().moments["forward.device_peak_bytes"]
    assert by_category(moment) == {categories.GATHERED: 128}


def test_a_site_is_named_by_its_package_with_its_callers() -> None:
    job = Job()

    def innermost() -> Storage:
        storage = Storage(8)
        job.ledger.add(storage, DEVICE)
        return storage

    def caller() -> Storage:
        return innermost()

    with job.phase("forward"):
        kept = caller()
    (held,) = job.explanation().moments["forward.device_retained_bytes"].held
    assert held.site.startswith("tests/probe/holders/test_sites.py:")
    assert held.site.endswith(" in innermost")
    assert held.via[0].endswith(" in caller")
    assert kept.nbytes() == 8


def test_without_a_watch_a_ledger_keeps_no_trace() -> None:
    ledger = StorageLedger()
    ledger.add(Storage(8), DEVICE)
    assert ledger.trace is None
    assert ledger.observer is None


def test_an_observed_ledger_counts_the_same() -> None:
    plain, job = StorageLedger(), Job()
    for ledger in (plain, job.ledger):
        ledger.reset_peak()
        held = [Storage(size) for size in (5, 7, 11)]
        for one in held:
            ledger.add(one, DEVICE)
        del held, one
        ledger.settle()
    assert (plain.live, plain.peak) == (job.ledger.live, job.ledger.peak)


def test_the_timeline_keeps_every_phases_extremes() -> None:
    job = Job()
    with job.phase("forward"):
        held = [job.make(1) for _ in range(500)]
        spike = job.make(10_000)
        del spike
        held += [job.make(1) for _ in range(500)]
    (stretch,) = job.explanation().timeline
    assert max(nbytes for _, nbytes in stretch.points) == 10_500
    assert stretch.points[0] == [0, 0]
    assert stretch.points[-1] == [1000, 1000]
    assert len(stretch.points) <= 2 * 60 + 1
    assert len(held) == 1000


def test_a_meter_without_books_is_said_to_have_none() -> None:
    with sites.observe_sites(object(), SimpleNamespace()) as observer:
        explanation = observer.explanation(0)
    assert explanation.moments == {}
    assert "keeps no ledger" in explanation.note


def test_attributes_of_optimizers_tell_what_they_hold() -> None:
    assert [
        categories.by_name(name)
        for name in ("fp32_partitioned_groups_flat", "averaged_gradients", "ipg_buckets", "bit16_groups_flat", "timers")
    ] == [
        categories.OPTIMIZER_STATE,
        categories.GRADIENTS,
        categories.BUCKETS,
        categories.PARAMETER_SHARDS,
        categories.OTHER,
    ]


def test_the_first_request_that_a_card_cannot_serve_is_reported_with_its_place() -> None:
    mib = 1 << 20
    job = Job()
    job.recorder.allocator = AllocatorSettings
    kept = []
    with job.phase("forward"):
        kept.append(job.make(20 * mib))
        kept.append(job.make(12 * mib))
        kept.append(job.make(50 * mib))
    refusal = job.recorder.explanation(0, room_bytes=64 * mib).refusal
    assert refusal is not None
    assert (refusal.phase, refusal.requested_bytes // mib, refusal.allocated_bytes // mib) == ("forward", 50, 32)
    assert "test_sites.py" in refusal.site
    assert job.recorder.explanation(0, room_bytes=128 * mib).refusal is None
    assert job.recorder.explanation(0).refusal is None


def test_nothing_is_observed_any_more_after_an_error() -> None:
    meter = SimpleNamespace(ledger=StorageLedger())

    def fails() -> None:
        with sites.observe_sites(meter, SimpleNamespace(PACKAGE="tests")):
            assert meter.ledger.observer is not None
            raise ValueError("in it")

    with pytest.raises(ValueError, match="^in it$"):
        fails()
    assert meter.ledger.observer is None
