"""Workers that stay open from one run to the next."""

from __future__ import annotations

import pytest

from dsregress.launch.contract import Ended, RunPlan
from dsregress.launch.lasting import Lasting
from dsregress.launch.untimed import run_parallel
from dsregress.model import Failed, Outcome, Passed, TimedOut
from tests.builders import cells


class Opened:
    def __init__(self) -> None:
        self.opened = self.closed = 0


class Worker:
    def __init__(self, log: Opened, outcome: Outcome) -> None:
        self._log = log
        self._outcome = outcome
        self._is_open = False

    def open(self) -> None:
        self._log.opened += not self._is_open
        self._is_open = True

    def wait_until_open(self) -> None: ...

    def start(self, cell: object, plan: RunPlan) -> object:
        return Ended(outcome=self._outcome)

    def round(self) -> object: ...

    def stop(self) -> object: ...

    def close(self) -> None:
        self._log.closed += 1


class Cluster:
    shares_environments = False

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.log = Opened()
        self._worker = Worker(self.log, outcome or Passed())
        self.is_closed = False

    def workers_at_once(self) -> int:
        return 1

    def slots(self, cell: object) -> int:
        return 1

    def worker_for(self, environment: object, cell: object) -> Worker:
        return self._worker

    def keep_workers_for(self, cells: object) -> None:
        raise AssertionError("a run asks the lasting cluster, which keeps all")

    def close(self) -> None:
        self.is_closed = True


def test_a_worker_is_opened_once_for_several_runs() -> None:
    cluster = Cluster()
    lasting = Lasting(cluster)  # type: ignore[arg-type]
    for _ in range(3):
        lasting.keep_workers_for([cells.cell("1")])
        assert len(list(run_parallel(lasting, [cells.cell("1")], lambda cell: cells.environment("1")))) == 2
        lasting.close()
    assert (cluster.log.opened, cluster.log.closed, cluster.is_closed) == (1, 0, False)


@pytest.mark.parametrize(
    ("outcome", "closed"),
    [
        (TimedOut(stage="import", limit_s=1.0), 1),
        (Failed("import", "ImportError"), 1),
        (Failed("step", "ValueError"), 0),
    ],
)
def test_a_worker_that_could_not_import_is_begun_anew_by_the_next_run(outcome: Outcome, closed: int) -> None:
    cluster = Cluster(outcome)
    list(run_parallel(Lasting(cluster), [cells.cell("1")], lambda cell: cells.environment("1")))  # type: ignore[arg-type]
    assert cluster.log.closed == closed


def test_its_end_closes_the_cluster() -> None:
    cluster = Cluster()
    Lasting(cluster).end()  # type: ignore[arg-type]
    assert cluster.is_closed
