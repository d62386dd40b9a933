"""Made-up rows: columns, lengths, repeatability. Without the datasets library."""

from __future__ import annotations

import statistics

import pytest

from harness.probe.programs import known_data, synthetic


@pytest.mark.parametrize(
    ("name", "configuration", "columns"),
    [
        ("imdb", None, {"text", "label"}),
        ("stanfordnlp/imdb", None, {"text", "label"}),
        ("wikitext", "wikitext-2-raw-v1", {"text"}),
        ("nyu-mll/glue", "mrpc", {"sentence1", "sentence2", "label", "idx"}),
        ("glue", "sst2", {"sentence", "label", "idx"}),
        ("tatsu-lab/alpaca", None, {"instruction", "input", "output", "text"}),
        ("yahma/alpaca-cleaned", None, {"instruction", "input", "output"}),
        ("trl-lib/Capybara", None, {"source", "messages", "num_turns"}),
        ("openai/gsm8k", "main", {"question", "answer"}),
        ("trl-internal-testing/zen", "standard_preference", {"prompt", "chosen", "rejected"}),
    ],
)
def test_a_known_data_set_has_its_columns(name: str, configuration: str | None, columns: set[str]) -> None:
    known = known_data.find(name, configuration)
    assert synthetic.table(known.columns, name, "train", rows=2).keys() == columns


def test_every_known_column_can_be_made() -> None:
    for known in (*known_data.TABLE.values(), known_data.ANY):
        made = synthetic.table(known.columns, "name", "train", rows=3)
        assert {len(values) for values in made.values()} == {3}


def test_an_unknown_data_set_has_what_trainers_look_for() -> None:
    columns = synthetic.table(known_data.find("nobody/nothing").columns, "nobody/nothing", "train", rows=1).keys()
    assert columns >= {
        "text",
        "prompt",
        "completion",
        "messages",
        "chosen",
        "rejected",
        "instruction",
        "input",
        "output",
    }


def test_rows_are_the_same_in_every_run_and_differ_from_each_other() -> None:
    rows = synthetic.table("prompt:question messages", "mine", "train", rows=20)
    assert rows == synthetic.table("prompt:question messages", "mine", "train", rows=20)
    assert len(set(rows["prompt"])) == 20
    assert rows["prompt"] != synthetic.table("prompt:question", "mine", "test", rows=20)["prompt"]
    assert rows["prompt"] != synthetic.table("prompt:question", "other", "train", rows=20)["prompt"]


@pytest.mark.parametrize(
    ("kind", "median", "most"), [("question", 30, 300), ("answer", 110, 900), ("document", 220, 1500)]
)
def test_lengths_are_spread_as_documented(kind: str, median: int, most: int) -> None:
    lengths = [len(text.split()) for text in synthetic.table(f"x:{kind}", "lengths", "train", rows=600)["x"]]
    assert statistics.median(lengths) == pytest.approx(median, rel=0.15)
    assert max(lengths) <= most
    assert max(lengths) > 3 * median


def test_a_chosen_answer_is_another_than_the_rejected_one() -> None:
    made = synthetic.table(known_data.find("trl-lib/ultrafeedback_binarized").columns, "u", "train", rows=1)
    assert [part["role"] for part in made["chosen"][0]] == ["user", "assistant"]
    assert made["chosen"][0][1] != made["rejected"][0][1]
