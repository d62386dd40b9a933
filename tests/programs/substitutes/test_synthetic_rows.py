"""Made-up rows: columns, lengths, repeatability. Without the datasets library."""

from __future__ import annotations

import io
import statistics
import wave
import zlib

import pytest

from dsregress.programs.substitutes import known_datasets, synthetic_rows


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
        ("wmt16", "ro-en", {"translation"}),
        ("wmt/wmt16", "ro-en", {"translation"}),
        ("opus_books", "en-fr", {"id", "translation"}),
        ("uoft-cs/cifar10", None, {"img", "label"}),
        ("openslr/librispeech_asr", "clean", {"file", "audio", "text", "speaker_id", "chapter_id", "id"}),
        ("trl-internal-testing/zen", "standard_preference", {"prompt", "chosen", "rejected"}),
        ("princeton-nlp/llama3-ultrafeedback-armorm", None, {"prompt_id", "prompt", "chosen", "rejected"}),
        (
            "Tevatron/msmarco-passage-aug",
            None,
            {"query_id", "query", "positive_passages", "negative_passages"},
        ),
    ],
)
def test_a_known_data_set_has_its_columns(name: str, configuration: str | None, columns: set[str]) -> None:
    known = known_datasets.find_schema(name, configuration)
    assert synthetic_rows.make_table(known.columns, name, "train", rows=2).keys() == columns


def test_every_known_column_can_be_made() -> None:
    for known in (*known_datasets.known_datasets().values(), known_datasets.ANY):
        made = synthetic_rows.make_table(known.columns, "name", "train", rows=3)
        assert {len(values) for values in made.values()} == {3}


def test_an_unknown_data_set_has_what_trainers_look_for() -> None:
    columns = synthetic_rows.make_table(
        known_datasets.find_schema("nobody/nothing").columns, "nobody/nothing", "train", rows=1
    ).keys()
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
    rows = synthetic_rows.make_table("prompt:question messages", "mine", "train", rows=20)
    assert rows == synthetic_rows.make_table("prompt:question messages", "mine", "train", rows=20)
    assert len(set(rows["prompt"])) == 20
    assert rows["prompt"] != synthetic_rows.make_table("prompt:question", "mine", "test", rows=20)["prompt"]
    assert rows["prompt"] != synthetic_rows.make_table("prompt:question", "other", "train", rows=20)["prompt"]


@pytest.mark.parametrize(
    ("kind", "median", "most"), [("question", 30, 300), ("answer", 110, 900), ("document", 220, 1500)]
)
def test_lengths_are_spread_as_documented(kind: str, median: int, most: int) -> None:
    lengths = [len(text.split()) for text in synthetic_rows.make_table(f"x:{kind}", "lengths", "train", rows=600)["x"]]
    assert statistics.median(lengths) == pytest.approx(median, rel=0.15)
    assert max(lengths) <= most
    assert max(lengths) > 3 * median


def test_a_chosen_answer_is_another_than_the_rejected_one() -> None:
    made = synthetic_rows.make_table(
        known_datasets.find_schema("trl-lib/ultrafeedback_binarized").columns, "u", "train", rows=1
    )
    assert [part["role"] for part in made["chosen"][0]] == ["user", "assistant"]
    assert made["chosen"][0][1] != made["rejected"][0][1]


def test_a_question_has_a_passage_that_answers_it_and_many_that_do_not() -> None:
    made = synthetic_rows.make_table(
        known_datasets.find_schema("Tevatron/msmarco-passage").columns, "m", "train", rows=1
    )
    assert [len(made[column][0]) for column in ("positive_passages", "negative_passages")] == [1, 30]
    assert made["negative_passages"][0][0].keys() == {"docid", "title", "text"}


def test_a_translation_has_both_languages_of_its_configuration() -> None:
    (row,) = synthetic_rows.make_table(
        known_datasets.find_schema("wmt/wmt16", "de-en").columns, "wmt16", "train", rows=1
    )["translation"]
    assert row.keys() == {"en", "de"}
    assert row["en"] != row["de"]


def test_each_word_has_its_tag() -> None:
    made = synthetic_rows.make_table(
        known_datasets.find_schema("eriktks/conll2003").columns, "conll2003", "train", rows=30
    )
    assert [len(words) for words in made["tokens"]] == [len(tags) for tags in made["ner_tags"]]
    assert {tag for tags in made["ner_tags"] for tag in tags} == set(range(synthetic_rows.TAGS["tags"]))


def test_an_image_is_a_whole_png() -> None:
    (row,) = synthetic_rows.make_table("img:small_image", "images", "train", rows=1)["img"]
    content = row["bytes"]
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    start = content.index(b"IDAT")
    size = int.from_bytes(content[start - 4 : start])
    assert len(zlib.decompress(content[start + 4 : start + 4 + size])) == 32 * (1 + 3 * 32)


def test_a_sound_is_a_whole_wav_of_some_seconds() -> None:
    seconds = []
    for row in synthetic_rows.make_table("audio", "sounds", "train", rows=8)["audio"]:
        with wave.open(io.BytesIO(row["bytes"])) as file:
            seconds.append(file.getnframes() / file.getframerate())
    assert (round(min(seconds)), round(max(seconds))) == (2, 17)
