"""What a run's steps share."""

from __future__ import annotations

from pathlib import Path

from harness.probe.border.wire import Detail
from harness.run import pipeline
from harness.store import Store
from tests.builders.synthetic import stored_result


def test_a_missing_detail_is_looked_for_again(tmp_path: Path) -> None:
    detail = Detail(configuration={"zero.stage": 3})
    store, one = Store(str(tmp_path)), stored_result(detail=detail)
    detail_of = pipeline.details_of([store])
    assert detail_of(one) is None
    store.write_detail(detail)
    assert detail_of(one) == detail
