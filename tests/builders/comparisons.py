"""A comparison that has a finding of each kind."""

from __future__ import annotations

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Failed, Result, Skipped
from dsregress.probe.border.wire import Detail
from tests.builders.synthetic import noisy_record, result

#: What a release may put into a message: markup for a terminal, a page and Markdown.
HOSTILE = "[red]Boom[/red] \x1b[31m\x1b]0;owned\x07<script>alert(1)</script> | `x` @all\nhttps://evil.example \u202egnp"


def one_of_each_finding() -> list[Result]:
    """One result for each kind of finding."""
    old, new = {"configuration": "a", "warnings": "x"}, {"configuration": "b", "warnings": "x"}
    wrong = noisy_record(7)
    assert wrong.ranks[0].numerics is not None
    wrong.ranks[0].numerics.parameter_error = 12.5
    wrong.ranks[0].numerics.note = "furthest: model.layers.0.mlp.up_proj.weight"
    return [
        result("0.15.0", run=noisy_record(1, held_mib=1), detail_sha256=old),
        result("0.15.4", run=noisy_record(2, held_mib=1), detail_sha256=old),
        result("0.16.0", run=noisy_record(3, held_mib=4), detail_sha256=new),
        result("0.16.4", run=noisy_record(4, held_mib=4, calls=3), detail_sha256=new),
        result("0.16.8", run=noisy_record(5, step_s=0.7), detail_sha256=new),
        result("0.17.0", outcome=Failed("init", HOSTILE, f"Traceback\n{HOSTILE}")),
        result("0.17.6", run=wrong),
        result("0.18.9", outcome=Skipped("needs a GPU")),
        result("0.19.8", run=noisy_record(8, held_mib=1), session="another"),
    ]


def comparison() -> Comparison:
    results = one_of_each_finding()
    details = {
        "0.15.0": Detail(configuration={"zero.overlap_comm": None}, host_functions={"backward": {"engine.py:hook": 7}}),
        "0.16.0": Detail(configuration={"zero.overlap_comm": True}),
        "0.16.4": Detail(
            configuration={"zero.overlap_comm": True}, host_functions={"backward": {"engine.py:hook": 600_007}}
        ),
    }
    return compare(
        results, results[0].cell.stack.id, Thresholds(), lambda of: details.get(of.cell.stack.versions["deepspeed"])
    )
