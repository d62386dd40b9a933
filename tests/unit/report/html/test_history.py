"""The history of a finding over the releases."""

from __future__ import annotations

from dsregress.model import Finding
from dsregress.report.html.history import history


def finding(kind: str = "regression", metric: str = "device_peak_bytes") -> Finding:
    return Finding(
        stack="b", scenario="", variant="", device="cpu", metric=metric, phase="", kind=kind, value=1,
        baseline_value=1, ratio=1, unit="", significant=True, relevant=True, sentence="",
    )  # fmt: skip


def test_it_says_since_when_and_until_when() -> None:
    names = {key: f"0.{key}" for key in "abcde"}
    told = history(finding(), ["b", "d"], ["a", "b", "c", "d", "e"], names)
    assert told.since == "0.b; not in 0.a, the release measured before"
    assert told.until == "0.d; not in 0.e, the release measured after; not in 0.c between them"
    assert told.free == ("0.a", "0.c", "0.e")
    still = history(finding(), ["a", "b"], ["a", "b"], names)
    assert still.until == "still in 0.b, the newest"
