"""What a rank leaves for its cell."""

from __future__ import annotations

import math

from dsregress.probe.border.wire import Numerics
from dsregress.probe.process.rank_file import representable


def test_a_step_without_a_loss_is_no_loss_that_is_no_number() -> None:
    assert representable(Numerics(losses=[1.0, math.nan, math.inf])).losses == [1.0, None, None]
    assert representable(Numerics(losses=[None, None])).losses == []
    assert representable(Numerics(losses=[2.0, None, 1.0])).losses == [2.0]
