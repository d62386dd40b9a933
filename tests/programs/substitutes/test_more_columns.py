"""A program asks for columns that a made-up data set does not have: the cell begins again with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("datasets")
torch = pytest.importorskip("torch")

from dsregress.programs.substitutes import more_columns, synthetic_files  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture(autouse=True)
def none_added() -> Iterator[None]:
    yield
    more_columns._added.clear()
    more_columns._splits.clear()
    more_columns._removed.clear()
    synthetic_files._files.clear()


TRAIN = """
import datasets, torch
rows = datasets.load_dataset("nobody/tweets", "complaints")
{first}
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for row in rows["train"]:
    model(torch.full((1, 8), float(len({read})))).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_the_columns_that_a_program_asks_for_are_made_up(folder: Path, device: str) -> None:
    first = """
names = rows["train"].features["Label"].names
rows = rows.map(lambda row: {"class": [names[label] for label in row["Label"]]}, batched=True).remove_columns("ID number")
rows = rows.rename_column("Tweet text", "tweet").select_columns(["tweet", "class"])
"""
    (folder / "train.py").write_text(TRAIN.format(first=first, read="row['tweet'] + row['class']"))
    passed(ran(folder, device, 1, "python train.py", synthetic_data=True))
    assert dict(more_columns.added_columns()) == {"Label": "flag", "ID number": "answer", "Tweet text": "question"}


def test_all_columns_that_a_function_reads_from_one_row_are_made_up_at_once(folder: Path) -> None:
    (folder / "reading.py").write_text(
        "def read(item):\n    item['made'] = 1\n    kept = {'other': 2}\n"
        "    return item['images'], item['title'], item['answer'], item['made'], item['input_ids'], kept['other']\n"
        "def further(item):\n    return item['body']\n"
    )
    assert more_columns.others_of_its_row("images", [folder / "reading.py"]) == ["title"]
    more_columns.note_columns(folder, ["images", "title", "validation"])
    assert more_columns.has_other_columns(folder)
    assert dict(more_columns.added_columns()) == {"images": "images", "title": "title"}
    assert more_columns.added_splits() == ("validation",)
    more_columns.note_columns(folder, ["images"])
    assert not more_columns.has_other_columns(folder)


def test_a_data_set_of_conversations_about_images_is_known(folder: Path) -> None:
    first = """
row = next(iter(rows["train"]))
assert [image.size for image in row["images"]] == [(256, 256)]
assert set(row["texts"][0]) == {"user", "assistant", "source"}
"""
    program = TRAIN.format(first=first, read="row['texts'][0]['user']").replace(
        "nobody/tweets", "HuggingFaceM4/FineVision"
    )
    (folder / "train.py").write_text(program)
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert dict(more_columns.added_columns()) == {}


def test_a_split_that_a_program_asks_for_is_made_up(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.format(first="assert len(rows['validation']) == 256", read="row['text']"))
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert (more_columns.added_columns(), more_columns.added_splits()) == ({}, ("validation",))


def test_a_column_may_be_named_on_the_line_or_in_a_file_of_settings(folder: Path) -> None:
    (folder / "settings.yaml").write_text("field: body\nother: subject\n")
    first = "import sys; field = open(sys.argv[2]).readline().split()[1]"
    read = "row[sys.argv[1]] + row[field]"
    (folder / "train.py").write_text(TRAIN.format(first=first, read=read))
    passed(ran(folder, "sim", 1, "python train.py headline settings.yaml", synthetic_data=True))
    assert set(more_columns.added_columns()) == {"headline", "body"}


def test_a_column_that_a_program_passes_on_with_its_row_is_left_out(folder: Path) -> None:
    (folder / "train.py").write_text("""
import datasets, torch
class Model(torch.nn.Linear):
    def forward(self, text, answer=None):
        return super().forward(torch.full((1, 8), float(len(text))))
rows = datasets.load_dataset("nobody/tweets", split="train")
rows = rows.select_columns([name for name in rows.column_names if name[0] in "lt"])
model = Model(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for row in rows:
    model(**row).sum().backward()
    optimizer.step()
""")
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert "label" not in more_columns.guessed_columns()


def test_a_list_of_which_the_loader_makes_no_batch_is_left_out_if_the_program_names_it_nowhere(folder: Path) -> None:
    (folder / "train.py").write_text("""
import json, torch
rows = [json.loads(line) for line in open("data/tasks.jsonl")]
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(rows, batch_size=16):
    model(torch.full((len(batch["question"]), 8), 1.0)).sum().backward()
    optimizer.step()
""")
    passed(ran(folder, "sim", 1, "python train.py", synthetic_data=True))
    assert "messages" not in more_columns.guessed_columns()


@pytest.mark.parametrize(
    ("error", "column"),
    [
        (TypeError("Model.forward() got an unexpected keyword argument 'label'"), "label"),
        (
            ValueError("Perhaps your features (`label` in this case) have excessive nesting (inputs type `list`)"),
            "label",
        ),
        (TypeError("Model.forward() got an unexpected keyword argument 'output'"), None),  # the program reads it
        (TypeError("Model.forward() got an unexpected keyword argument 'num_logits_to_keep'"), None),
        (RuntimeError("got an unexpected keyword argument 'label'"), None),
        (RuntimeError("each element in list of batch should be of equal size"), "messages"),
        (RuntimeError("stack expects each tensor to be equal size"), None),
    ],
)
def test_only_a_guessed_column_that_the_program_does_not_name_is_left_out(
    tmp_path: Path, error: Exception, column: str | None
) -> None:
    (tmp_path / "train.py").write_text("rows['output']")
    assert more_columns.surplus_column(error, [tmp_path / "train.py"], []) == column


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("rows['train'] = [row for row in rows['train'] if row['text']['summary']]", "TypeError: string indices must"),
        ("rows = rows.map(lambda row: {'length': row['text'] + 1})", "TypeError: can only concatenate str"),
        ("rows = rows.map(lambda row: {'length': row['text'] + 1}, num_proc=2)", "TypeError: can only concatenate str"),
        ("{'a': 1}[rows['train'][0]['text'][:0]]", "KeyError: ''"),
        ("1 / len([row for row in rows['train'] if len(row['text']) < 3])", "ZeroDivisionError: division by zero"),
    ],
)
def test_rows_that_do_not_suit_say_nothing_of_a_release(folder: Path, first: str, said: str) -> None:
    (folder / "train.py").write_text(TRAIN.format(first=first, read="row"))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert (record.outcome, record.stage) == ("failed", "import")
    assert record.signature.startswith(f"CannotRun: train.py:4: made-up rows of nobody/tweets do not suit it ({said}")
    assert record.signature.endswith("give its data set")


@pytest.mark.parametrize(
    "first",
    [
        "torch.nn.Linear(8, 2, biased=True)",
        "{}['nothing of its own'.upper()]",
        "raise RuntimeError('no kernel')",
        "import accelerate; rows.map(lambda row: accelerate.utils.get_max_layer_size([(row['text'], 1)], {}, []))",
    ],
)
def test_other_errors_stay_the_programs_own(folder: Path, first: str) -> None:
    (folder / "train.py").write_text(TRAIN.format(first=first, read="row"))
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert record.outcome == "failed"
    assert record.stage == ("import" if first.startswith("{}") else "init")
    assert not more_columns.added_columns()


@pytest.mark.parametrize(
    ("error", "column"),
    [
        (KeyError("Label"), "Label"),
        (KeyError("Column Label not in the dataset. Current columns in the dataset: ['text']"), "Label"),
        (ValueError("Column name ['Label'] not in the dataset. Current columns in the dataset: ['text']"), "Label"),
        (
            ValueError("Column to remove ['Label'] not in the dataset. Current columns in the dataset: ['text']"),
            "Label",
        ),
        (
            ValueError("Original column name Label not in the dataset. Current columns in the dataset: ['text']"),
            "Label",
        ),
        (ValueError("Column 'Label' doesn't exist."), "Label"),
        (KeyError("label"), None),
        (KeyError("labels"), None),
        (KeyError(0), None),
        (RuntimeError("Label"), None),
        (ValueError("'Label' is no number"), None),
    ],
)
def test_which_column_is_missing(tmp_path: Path, error: Exception, column: str | None) -> None:
    (tmp_path / "train.py").write_text("row['Label']; batch['labels']")
    assert more_columns.missed_column(error, [tmp_path / "train.py"], []) == column


class ValidationError(ValueError):
    """As pydantic's."""


@pytest.mark.parametrize(
    "error",
    [
        ValidationError(
            "2 validation errors for Sample\nsource\n  Field required [type=missing, input_value={}]\ntarget_text\n  Field "
            "required"
        ),
        ValidationError("1 validation error for Sample\ntarget_text\n  field required (type=value_error.missing)"),
        TypeError("Sample.__init__() missing 2 required positional arguments: 'source' and 'target_text'"),
    ],
)
def test_a_field_that_the_programs_class_of_a_row_lacks_is_a_missing_column(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "train.py").write_text("class Sample(BaseModel):\n    source: str\n    target_text: str\n")
    (tmp_path / "other.py").write_text("class Config:\n    source = 1\n")
    assert more_columns.missed_column(error, [tmp_path / "train.py"], []) in ("source", "target_text")
    assert more_columns.missed_column(error, [tmp_path / "other.py"], []) is None


@pytest.mark.parametrize(
    ("column", "maker"),
    [
        ("Label", "flag"), ("is_duplicate", "flag"), ("Tweet text", "question"), ("user_prompt", "question"),
        ("model_reply", "answer"), ("image", "image"), ("messages", "messages"), ("toxicity_score", "score"),
        ("Unnamed: 0", "answer"), ("num_terms", "few"), ("token_count", "few"), ("length", "row"),
    ],
)  # fmt: skip
def test_what_a_column_holds_follows_from_its_name(column: str, maker: str) -> None:
    assert more_columns.maker_of(column) == maker


def test_rows_that_make_no_batch_do_not_suit() -> None:
    collate = torch.utils.data.default_collate
    with pytest.raises(RuntimeError) as raised:
        collate([torch.zeros(1), torch.zeros(2)])
    assert more_columns.does_not_suit(raised.value)
    with pytest.raises(RuntimeError) as raised:
        torch.stack([torch.zeros(1), torch.zeros(2)])
    assert not more_columns.does_not_suit(raised.value)
