"""Charts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsregress.report.html.charts import line_chart, y_ticks


def test_a_chart_has_a_name_a_gap_and_no_colour_of_its_own() -> None:
    chart = str(line_chart("a < b", ("1", "2", "3", "4"), ((1.0, None, 3.0, float("nan")),), "bytes", (2,)))
    assert 'role="img" aria-label="a &lt; b"' in chart
    assert 'class="line s1"' in chart
    assert 'class="mark"' in chart
    assert "style" not in chart
    assert "#" not in chart
    assert "nan" not in chart
    assert chart == str(line_chart("a < b", ("1", "2", "3", "4"), ((1.0, None, 3.0, float("nan")),), "bytes", (2,)))
    assert not line_chart("nothing", ("1",), ((None,),), "bytes")


@given(
    st.floats(min_value=0, max_value=1e15),
    st.floats(min_value=0, max_value=1e15),
    st.sampled_from(["bytes", "calls", "ratio", "operations"]),
)
def test_ticks_are_few_and_hold_the_values(low: float, high: float, unit: str) -> None:
    low, high = min(low, high), max(low, high) + 0.01
    ticks = y_ticks(low, high, unit)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= low * (1 + 1e-9)
    assert ticks[-1] >= high * (1 - 1e-9)
