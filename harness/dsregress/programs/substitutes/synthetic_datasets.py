"""Gives a program its data sets without a download.

    with synthetic_data(wanted):
        ...  # the program

Within the block, ``datasets.load_dataset`` and ``load_from_disk`` load what this machine has: the user's files and the
cache. A missing data set is synthesized if that is ``wanted`` (`substitutes.synthetic_rows`), and is otherwise one
line (`NotHere`). For the columns of data sets see `substitutes.known_datasets`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dsregress.programs.substitutes import (
    compared_columns,
    known_datasets,
    more_columns,
    synthetic_files,
    synthetic_rows,
)
from dsregress.programs.world.process_pools import processor_count
from dsregress.programs.world.resource_errors import NotHere, is_absence
from vgpu.replacing import Patches

#: Files of a streamed data set. Each file of a training split has as many rows as the whole split has if not streamed.
_FILES = 64


@dataclasses.dataclass
class MadeUp:
    """Names of synthetic data sets, and of those among them whose columns were guessed."""

    is_wanted: bool = False
    names: list[str] = dataclasses.field(default_factory=list)
    guessed: list[str] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def synthetic_data(wanted: bool) -> Iterator[MadeUp]:
    """Load data sets within the block as the module describes. Yield the names of the synthetic ones, added as they are
    loaded."""
    files = synthetic_files.made_files()
    made = MadeUp(wanted, list(files), list(files))
    try:
        import datasets
    except ImportError:
        yield made
        return
    load, from_disk = datasets.load_dataset, datasets.load_from_disk

    def missing(name: str, error: Exception) -> None:
        """Return if the data set may be synthesized; raise NotHere otherwise."""
        if not wanted:
            raise NotHere(
                f"the data set {name} is not on this machine", "give --synthetic-data for made-up rows, or its files"
            ) from error
        if name not in made.names:
            made.names.append(name)

    def schema_of(name: str, configuration: str | None = None) -> known_datasets.DatasetSchema:
        schema = known_datasets.find_schema(name, configuration)
        if schema is known_datasets.ANY and name not in made.guessed:
            made.guessed.append(name)
        return schema

    def load_dataset(path: str, name: str | None = None, *args: object, **options: Any) -> object:
        try:
            return load(path, name, *args, **options)
        except Exception as error:  # releases report absent data by errors of many kinds; all others are raised again
            if not _is_absence(error):
                raise
            files = dict(zip(("data_dir", "data_files"), args)).get("data_files", options.get("data_files"))
            title = _data_set_title(path, files)
            missing(title, error)
            schema = schema_of(title, name)
            split = args[2] if len(args) > 2 else options.get("split")
            return _made_up_answer(
                schema, f"{title}/{name}" if name else title, split, files, options.get("streaming", False)
            )

    def load_from_disk(dataset_path: Any, *args: object, **options: object) -> object:
        try:
            return from_disk(dataset_path, *args, **options)
        except FileNotFoundError as error:
            if not is_absence(error):
                raise
            title = os.path.basename(os.fspath(dataset_path).rstrip("/"))
            missing(title, error)
            return _made_up_answer(schema_of(title), title, "train", None, False)

    with Patches("data sets without a download") as patches:
        patches.enter_context(_capped_map(datasets))
        patches.everywhere(load, load_dataset, "load_dataset")
        patches.everywhere(from_disk, load_from_disk, "load_from_disk")
        if wanted:
            patches.enter_context(_long_enough(datasets, made))
        yield made


def _made_up_answer(
    schema: known_datasets.DatasetSchema, title: str, split: object, files: object, streaming: bool
) -> object:
    """Return what ``load_dataset`` returns: a data set per split, one for a ``split``, or a list for a list."""
    splits = tuple(files) if isinstance(files, Mapping) else ("train",) if files else schema.splits
    if schema is known_datasets.ANY:
        splits = (*splits, *more_columns.added_splits())
    if isinstance(split, (list, tuple)):
        return [_one(schema, title, splits, str(one), streaming) for one in split]
    if split is not None:
        return _one(schema, title, splits, str(split), streaming)
    import datasets

    kind = datasets.IterableDatasetDict if streaming else datasets.DatasetDict
    return kind({name: _one(schema, title, splits, name, streaming) for name in splits})


def _one(
    schema: known_datasets.DatasetSchema, title: str, splits: tuple[str, ...], spec: str, streaming: bool
) -> object:
    """Return the rows that a split expression selects: ``train``, ``train[:10%]``, ``train+test``, ``all``."""
    import datasets

    parts: dict[str, Any] = {}
    chosen = []
    for part in splits if spec == "all" else spec.split("+"):
        name = re.findall(r"[\w.\-]+", part)[0]
        if name not in parts:
            is_guessed = schema is known_datasets.ANY
            makers = more_columns.guessed_columns() if is_guessed else synthetic_rows.column_makers(schema.columns)
            table = synthetic_rows.make_table("", title, name, more=makers)
            made = datasets.Dataset.from_dict(compared_columns.with_compared_values(table, sys._getframe()))
            parts[name] = _with_types(made, makers)
        rows = len(parts[name])
        try:
            (read,) = datasets.ReadInstruction.from_spec(part.strip()).to_absolute({name: rows})
            first, end = read.from_ or 0, rows if read.to is None else read.to
        except (ValueError, AssertionError):  # more rows than the split has
            first, end = 0, rows
        if first >= end:  # all but the last 100,000 rows of a larger one
            first, end = 0, rows
        chosen.append(parts[name].select(range(first, end)))
    whole = chosen[0] if len(chosen) == 1 else datasets.concatenate_datasets(chosen)
    return _streamed(whole, spec.startswith("train")) if streaming else whole


def _streamed(rows: Any, training: bool) -> object:
    """Return the rows as a streamed data set of many files, which ranks and a loader's workers share: with one file, all
    but one of them would have none. A training split is longer than the part that a program takes or skips first."""
    import datasets

    if training:
        rows = datasets.concatenate_datasets([rows] * _FILES)
    return rows.to_iterable_dataset(num_shards=min(_FILES, len(rows)))


def _with_types(rows: Any, makers: Mapping[str, str]) -> object:
    """Return the rows with typed columns. Programs read the number of classes from the types, and images and sounds are
    decoded by them."""
    import datasets

    for label, maker in makers.items():
        if maker in synthetic_rows.CLASSES:
            rows = rows.cast_column(label, datasets.ClassLabel(num_classes=synthetic_rows.CLASSES[maker]))
        elif maker in synthetic_rows.TAGS:
            rows = rows.cast_column(
                label, datasets.Sequence(datasets.ClassLabel(num_classes=synthetic_rows.TAGS[maker]))
            )
        elif maker in synthetic_rows.IMAGES:
            rows = rows.cast_column(label, datasets.Image())
        elif maker in synthetic_rows.LISTS_OF_IMAGES:
            rows = rows.cast_column(label, datasets.Sequence(datasets.Image()))
        elif maker in synthetic_rows.SOUNDS:
            rows = rows.cast_column(label, datasets.Audio(sampling_rate=synthetic_rows.SAMPLING_RATE))
        elif maker.startswith("en_"):
            rows = rows.cast_column(label, datasets.Translation(languages=["en", maker[3:]]))
    return rows


def _data_set_title(path: str, files: Any) -> str:
    """Return a name to look up and to show; for files, the name of the first one."""
    if isinstance(files, Mapping):
        files = next(iter(files.values()), None)
    if isinstance(files, (list, tuple)):
        files = files[0] if files else None
    return os.path.basename(os.fspath(files)) if files else str(path)


def _is_absence(error: Exception) -> bool:
    """Return True if the data set is not on this machine; any other error is the program's own."""
    return is_absence(error) if isinstance(error, OSError) else "Couldn't find cache for" in str(error)


@contextlib.contextmanager
def _capped_map(datasets: Any) -> Iterator[None]:
    """Cap ``map(num_proc=128)`` within the block as `world.process_pools` does: ``datasets`` has its own
    pools."""

    def capped(original: Any) -> object:
        @functools.wraps(original)
        def with_fewer(self: object, *args: object, **options: Any) -> object:
            if isinstance(options.get("num_proc"), int):
                options["num_proc"] = min(options["num_proc"], processor_count())
            return original(self, *args, **options)

        return with_fewer

    with Patches("no more processes than processors") as patches:
        for name in ("map", "filter"):
            patches.replace(datasets.Dataset, name, capped(getattr(datasets.Dataset, name)))
        yield


@contextlib.contextmanager
def _long_enough(datasets: Any, made: MadeUp) -> Iterator[None]:
    """Make ``select(range(100_000))`` of a synthetic data set repeat its rows within the block, and a small fraction that is
    split off it (``train_test_split(test_size=0.0005)``) an eighth: of a real one, it would be as many rows."""
    original, split = datasets.Dataset.select, datasets.Dataset.train_test_split

    def select(self: Any, indices: object, *args: object, **options: object) -> object:
        if made.names and isinstance(indices, range) and len(self) and indices and max(indices) >= len(self):
            indices = [index % len(self) for index in indices]
        return original(self, indices, *args, **options)

    @functools.wraps(split)
    def train_test_split(self: Any, test_size: object = None, *args: object, **options: object) -> object:
        if made.names and isinstance(test_size, float) and test_size * len(self) < synthetic_rows.OTHER_ROWS / 8:
            test_size = max(1, min(synthetic_rows.OTHER_ROWS, len(self) // 8))
        return split(self, test_size, *args, **options)

    with Patches("synthetic rows repeat") as patches:
        patches.replace(datasets.Dataset, "select", select)
        patches.replace(datasets.Dataset, "train_test_split", train_test_split)
        yield
