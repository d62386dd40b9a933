"""Stored answers of `reproduce` and `bisect`, read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsregress.model import Verdict, WorkloadParts
from dsregress.report.stored_answers import StoredAnswers, read_answers
from tests.paths import ROOT

STACK = "py3.11-deepspeed0.18.3"


def reproduction(**changes: Any) -> dict[str, Any]:
    return {
        "schema": 3,
        "cell": f"{STACK}/llama_zero3_backward/zero_stage=1/cpu",
        "metric": "gradient_norm_error",
        "package": "deepspeed",
        "bad": "0.18.3",
        "good": "0.18.2",
        "confirmed": True,
        "why_not": "",
        "smallest_cell": f"{STACK}/minimal_training/zero_stage=1,gradient_accumulation_steps=2/cpu",
        "needs": [
            {"factor": "gradient_accumulation_steps", "value": 2, "shown": [2, 4], "hidden": [1], "unknown": []},
            {"factor": "zero_stage", "value": 1, "shown": [1], "hidden": [3], "unknown": [0, 2]},
        ],
        "indifferent": [
            {"factor": "offload_param", "value": False, "shown": [False, True], "hidden": [], "unknown": []}
        ],
        "not_known": [{"factor": "zero_stage", "value": 1, "shown": [1], "hidden": [3], "unknown": [0, 2]}],
        "runs": [{"version": "0.18.3", "answer": "bad", "exit_code": 1, "line": "ratio 0.480"}],
        "remedies": [],
        "script": "print()\n",
        **changes,
    }


def answers(*content: dict[str, Any], problems: list[str] | None = None) -> StoredAnswers:
    files = [(f"folder/quarter-{at}.json", json.dumps(one).encode()) for at, one in enumerate(content)]
    return read_answers(files, lambda file, why: (problems if problems is not None else []).append(f"{file}: {why}"))


def test_a_reproduction_says_its_conditions_in_words() -> None:
    (found,) = answers(reproduction()).reproductions
    assert found.name == "quarter-0"
    assert found.needed == ("gradient accumulation above 1", "ZeRO stage 1")
    assert found.does_not_matter == ("offload of the parameters",)
    assert found.open == ("ZeRO stage 0 or 2",)
    assert found.workload == WorkloadParts("llama_zero3_backward", "zero_stage=1", "cpu")
    assert found.smallest.variant == "zero_stage=1,gradient_accumulation_steps=2"


def test_what_is_left_has_its_words_where_no_other_value_is_tried() -> None:
    smallest = f"{STACK}/minimal_training/world_size=2,empty_groups=true/cpu"
    (found,) = answers(reproduction(smallest_cell=smallest)).reproductions
    assert found.reduced_to == ("two ranks", "a group without parameters")


def test_the_first_schema_calls_all_outputs_of_a_model_none() -> None:
    outputs = {"factor": "model_outputs", "value": None, "shown": [None], "hidden": ["loss"], "unknown": []}
    (found,) = answers(reproduction(schema=1, needs=[outputs])).reproductions
    assert found.needed == ("a model that returns several tensors",)


def test_a_factor_of_another_version_is_named_as_it_is() -> None:
    other = {"factor": "moon", "value": 1, "shown": ["full", "new"], "hidden": ["half"], "unknown": []}
    (found,) = answers(reproduction(needs=[other])).reproductions
    assert found.needed == ("moon=full or new",)


def test_a_bisection_names_the_place_that_its_commit_changed() -> None:
    course = {
        "kind": "commits",
        "package": "deepspeed",
        "metric": "gradient_norm_error",
        "to": "bad",
        "probes": [{"name": "a1"}, {"name": "b2", "about": "2025-11-01 engine.py: backward (1 of 2)"}],
        "changes": [{"before": "a1", "after": "b2", "to": "bad", "open": 0, "exact": True}],
    }
    (found,) = answers({"schema": 1, "workload": "s/base/cpu", "courses": [course]}).bisections
    (search,) = found.courses
    assert search.found is not None
    assert search.about(search.found.after) == "2025-11-01 engine.py: backward (1 of 2)"
    assert search.to is Verdict.BAD


def test_a_change_that_is_not_narrowed_down_is_not_found() -> None:
    change = {"before": "a1", "after": "b2", "to": "bad", "open": 3, "exact": False}
    course = {"kind": "releases", "package": "p", "metric": "outcome", "to": "bad", "probes": [], "changes": [change]}
    (found,) = answers({"schema": 1, "workload": "s/base/cpu", "courses": [course]}).bisections
    assert found.courses[0].found is None


def test_other_json_is_passed_over_and_what_is_damaged_or_newer_is_named() -> None:
    problems: list[str] = []
    damaged, newer = reproduction(runs="none"), reproduction(schema=99)
    found = answers({"x": 1}, damaged, newer, reproduction(), problems=problems)
    assert [one.name for one in found.reproductions] == ["quarter-3"]
    assert [line.partition(":")[0] for line in problems] == ["folder/quarter-1.json", "folder/quarter-2.json"]
    assert "newer version (schema 99" in problems[1]
    assert read_answers([("list.json", b"[1]"), ("text.json", b"no")]) == StoredAnswers()


@pytest.mark.parametrize("file", sorted((ROOT / "results" / "reproducers").glob("*.json")), ids=lambda file: file.stem)
def test_what_is_published_is_read(file: Any) -> None:
    (found,) = read_answers([(str(file), file.read_bytes())]).reproductions
    assert found.name == file.stem
    assert found.script
