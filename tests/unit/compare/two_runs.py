"""The comparison of a run with that of the release before: what several tests of comparisons share."""

from __future__ import annotations

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.probe.border.wire import RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import result


def judged(base: RunRecord, own: RunRecord) -> Comparison:
    results = result(run=base), result("0.16.4", run=own)
    return compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda _: None)


def said(base: RunRecord, own: RunRecord) -> list[tuple[str, str]]:
    """The kind and the sentence of each finding."""
    return [(one.kind, str(one.sentence)) for one in judged(base, own).findings]
