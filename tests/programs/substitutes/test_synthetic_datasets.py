"""Programs load data sets by name, through the datasets library, without a network."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets")

from dsregress.programs.substitutes.synthetic_datasets import synthetic_data  # noqa: E402
from dsregress.programs.world import offline  # noqa: E402
from dsregress.programs.world.resource_errors import NotHere  # noqa: E402


@pytest.fixture(autouse=True)
def without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    with offline.no_network():
        yield


def test_a_data_set_that_is_not_here_is_made_up() -> None:
    before = datasets.load_dataset
    with synthetic_data(True) as made:
        found = datasets.load_dataset("trl-lib/Capybara")
        again = datasets.load_dataset("trl-lib/Capybara", split="train")
    assert set(found) == {"train", "test"}
    assert found["train"][5] == again[5]
    assert found["train"][0]["messages"][0]["role"] == "user"
    assert made.names == ["trl-lib/Capybara"]
    assert datasets.load_dataset is before


def test_parts_of_splits_and_several_splits() -> None:
    with synthetic_data(True):
        whole = datasets.load_dataset("imdb", split="train")
        assert datasets.load_dataset("imdb", split="train[10:20]")["text"][:] == whole["text"][10:20]
        assert len(datasets.load_dataset("imdb", split="train[:25%]")) == len(whole) // 4
        assert len(datasets.load_dataset("imdb", split="train[:1000000]")) == len(whole)
        for part in ("train[:-100000]", "train[-100000:]", "train[5000:]"):  # of the real one, which has more rows
            assert len(datasets.load_dataset("imdb", split=part)) == len(whole)
        both = datasets.load_dataset("imdb", split=["train", "test"])
        assert [len(part) for part in both] == [len(whole), 256]
        assert len(datasets.load_dataset("imdb", split="train+test")) == len(whole) + 256
        assert len(datasets.load_dataset("HuggingFaceH4/ultrachat_200k", split="test_sft")) == 256


def test_a_program_may_choose_more_rows_than_are_made() -> None:
    with synthetic_data(True):
        train = datasets.load_dataset("imdb", split="train")
        more = train.select(range(5000))
        assert len(more) == 5000
        assert more[len(train)] == train[0]


@pytest.mark.parametrize(("test_size", "rows"), [(0.0005, 256), (0.25, 512), (10, 10)])
def test_a_small_fraction_that_is_split_off_is_as_long_as_another_split(test_size: float, rows: int) -> None:
    with synthetic_data(True):
        train = datasets.load_dataset("imdb", split="train")
        assert len(train.train_test_split(test_size=test_size, seed=1)["test"]) == rows


def test_rows_may_be_streamed() -> None:
    with synthetic_data(True):
        stream = datasets.load_dataset("openai/gsm8k", "main", split="train", streaming=True)
        assert "#### " in next(iter(stream))["answer"]


def test_each_worker_of_a_loader_has_a_part_of_what_is_streamed() -> None:
    data = pytest.importorskip("torch.utils.data")
    with synthetic_data(True):
        stream = datasets.load_dataset("openai/gsm8k", "main", split="test", streaming=True)
        loader = data.DataLoader(stream, batch_size=16, num_workers=4)
        assert sorted(row for batch in loader for row in batch["answer"]) == sorted(row["answer"] for row in stream)
        batches = [len(batch["answer"]) for batch in loader]
    assert batches == [16] * 16  # 256 rows, 64 of each worker


def test_a_program_may_skip_many_rows_of_a_stream() -> None:
    with synthetic_data(True):
        stream = datasets.load_dataset("openai/gsm8k", "main", split="train", streaming=True)
        assert len(list(stream.skip(10_000).take(20))) == 20


def test_rows_are_mapped_by_no_more_processes_than_there_are_processors() -> None:
    import os

    rows = datasets.Dataset.from_dict({"number": list(range(64))})
    before = datasets.Dataset.map
    with synthetic_data(False):
        made = rows.map(lambda row: {"number": row["number"], "process": os.getpid()}, num_proc=32)
        kept = rows.filter(lambda row: row["number"] % 2 == 0, num_proc=32)
    assert made["number"][:] == list(range(64))
    assert len(kept) == 32
    assert len(set(made["process"])) <= len(os.sched_getaffinity(0))
    assert datasets.Dataset.map is before


def test_without_the_flag_it_is_one_line_that_names_it(tmp_path: Path) -> None:
    with synthetic_data(False):
        with pytest.raises(NotHere, match="the data set trl-lib/Capybara .* --synthetic-data") as refused:
            datasets.load_dataset("trl-lib/Capybara")
        with pytest.raises(NotHere, match="the data set saved "):
            datasets.load_from_disk(str(tmp_path / "saved"))
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("test_synthetic_datasets.py:")


def test_the_users_files_are_loaded_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("".join(json.dumps({"text": str(row)}) + "\n" for row in range(3)))
    with synthetic_data(True) as made:
        found = datasets.load_dataset("json", data_files=str(tmp_path / "mine.json"), split="train")
        assert found["text"][:] == ["0", "1", "2"]
        found.save_to_disk(tmp_path / "saved")
        assert len(datasets.load_from_disk(tmp_path / "saved")) == 3
    assert made.names == []


def test_files_that_are_not_here_are_made_up_under_their_splits(tmp_path: Path) -> None:
    files = {"train": str(tmp_path / "a.json"), "held_out": str(tmp_path / "b.json")}
    with synthetic_data(True) as made:
        found = datasets.load_dataset("json", data_files=files)
    assert set(found) == {"train", "held_out"}
    assert made.names == ["a.json"]


def test_other_errors_of_a_program_stay_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{")
    with synthetic_data(True), pytest.raises(Exception) as raised:  # noqa: PT011
        datasets.load_dataset("json", data_files=str(tmp_path / "mine.json"))
    assert type(raised.value).__module__.startswith("datasets")


def test_columns_have_the_types_by_which_programs_read_them() -> None:
    with synthetic_data(True):
        words = datasets.load_dataset("conll2003", split="test").features
        image = datasets.load_dataset("uoft-cs/cifar10", split="test").features
        sound = datasets.load_dataset("openslr/librispeech_asr", "clean", split="test").features
        text = datasets.load_dataset("wmt16", "ro-en", split="test").features
    assert words["ner_tags"].feature.num_classes == 9
    assert isinstance(image["img"], datasets.Image)
    assert image["label"].num_classes == 10
    assert sound["audio"].sampling_rate == 16_000
    assert text["translation"].languages == ["en", "ro"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["load_dataset", "load_from_disk"])
def test_a_data_set_that_cannot_be_read_is_not_replaced_by_made_up_rows(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        try:
            raise OSError(number, os.strerror(number), "train.arrow")
        except OSError as error:
            raise FileNotFoundError("Couldn't find any data file at train.arrow") from error

    monkeypatch.setattr(datasets, name, refuses)
    with synthetic_data(True) as made, pytest.raises(FileNotFoundError, match="any data file"):
        getattr(datasets, name)("train.arrow")
    assert made.names == []


def test_rows_that_the_code_chooses_by_a_text_are_among_them() -> None:
    with synthetic_data(True):
        rows = datasets.load_dataset("meta-math/MetaMathQA", split="train")
    kept = [row for row in rows if "GSM" in row["type"]]
    other = rows.filter(lambda row: row["original_question"] in ("of algebra", "of numbers"))
    assert 0 < len(kept) < len(rows)
    assert set(other["original_question"]) == {"of algebra", "of numbers"}
