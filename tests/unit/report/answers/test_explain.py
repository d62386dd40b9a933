"""What a person reads who asked who holds the memory, and the picture of it."""

from __future__ import annotations

import json

from dsregress.probe.border.wire import Explanation, Held, Moment, Refusal, Stretch
from dsregress.report.answers import explain_answer

SITE = "deepspeed/runtime/zero/partition_parameters.py:1254 in gather"
KEY = "backward.device_retained_bytes"


def told(gathered: int) -> Explanation:
    rows = [
        Held(gathered, 2, "gathered parameters", "model.layers.*", SITE, ["hooks.py:491 in before"], "backward"),
        Held(2048, 1, "gradients", "", "stage3.py:547 in setup", [], "init"),
    ]
    device = Moment(1, sum(row.nbytes for row in rows), rows)
    host = Moment(0, 0, [])
    points = [[0, 100], [500, 4096], [1000, gathered]]
    return Explanation(
        {KEY: device, "backward.host_retained_bytes": host}, [Stretch("forward", points), Stretch("backward", points)]
    )


def test_a_cell_is_reported_by_category_module_and_place() -> None:
    assert (
        explain_answer.explanation_text("stack/scenario/base/cpu", told(4096), [KEY])
        == """\
stack/scenario/base/cpu

backward, at its end (device_retained_bytes): 6,144 B, rank 1
  by category
              4,096 B  gathered parameters
              2,048 B  gradients
  by module
              4,096 B  model.layers.*
              2,048 B  (no module)
  by place
              4,096 B  gathered parameters, 4.00 KiB
                       at deepspeed/runtime/zero/partition_parameters.py:1254 in gather
                       for model.layers.*
                       called by hooks.py:491 in before
              2,048 B  gradients, 2.00 KiB
                       at stage3.py:547 in setup
"""
    )


def test_a_request_that_the_card_refuses_is_reported_as_torch_tells_it() -> None:
    gib = 1 << 30
    refusal = Refusal(
        room_bytes=30 * gib,
        requested_bytes=5 * gib,
        allocated_bytes=23 * gib,
        reserved_bytes=29 * gib,
        phase="forward",
        module="lm_head",
        site="trl/trainer/dpo_trainer.py:1 in log_softmax",
    )
    assert (
        explain_answer.refusal_text(refusal)
        == """\
on its card: out of memory in forward. Tried to allocate 5.00 GiB; of 30.0 GiB for tensors 1.00 GiB are free, \
23.0 GiB allocated, 6.00 GiB reserved but unallocated.
                       at trl/trainer/dpo_trainer.py:1 in log_softmax
                       for lm_head"""
    )


def test_a_difference_tells_only_what_is_held_more_or_less() -> None:
    assert (
        explain_answer.difference_as_text("a", told(4096), "b", told(1024), [KEY])
        == """\
a
against b

backward, at its end (device_retained_bytes): 6,144 B instead of 3,072 B (+3,072 B)
             +3,072 B  gathered parameters, 3.00 KiB
                       at deepspeed/runtime/zero/partition_parameters.py:1254 in gather
                       for model.layers.*
                       called by hooks.py:491 in before
"""
    )


def test_equal_cells_are_said_to_be_equal() -> None:
    assert "every place holds the same" in explain_answer.difference_as_text("a", told(8), "b", told(8), [KEY])


def test_a_memory_that_is_never_used_is_left_out() -> None:
    assert explain_answer.keys(told(8)) == [KEY]


def test_json_has_every_row_and_the_difference() -> None:
    content = json.loads(explain_answer.explanation_json("a", told(4096), [KEY], "b", told(1024)))
    moment = content["moments"][KEY]
    assert content["schema"] == 3
    assert moment["bytes"] == 6144
    assert moment["other_bytes"] == 3072
    assert sum(row["nbytes"] for row in moment["held"]) == 6144
    assert [one["more_bytes"] for one in moment["difference"]] == [3072, 0]


def test_the_first_module_that_differs_from_plain_pytorch_is_told() -> None:
    first = "layers.1.mlp.up, forward, micro-batch 1 of step 1, rank 1: its inputs are equal, its output is 9 tolerances off"
    assert explain_answer.first_module_text("") == ""
    assert explain_answer.first_module_text(first) == f"\nfirst difference from plain PyTorch: {first}\n"
    content = json.loads(explain_answer.explanation_json("a", told(4096), [KEY], first_module=first))
    assert content["first_module"] == first
