"""Safetensors files: correct headers, and contents that are given or left out. Standard library only.

A file without contents has its full size and no blocks on disk beyond its header: it is read as zeros. Shards are cut as
transformers' ``save_pretrained`` cuts them, at 5 GB. Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

#: transformers' default ``max_shard_size`` throughout releases 4.
SHARD_BYTES = 5 * 10**9

#: dtype -> bytes per element, by the format's names
ITEM_BYTES = dict(F64=8, I64=8, F32=4, I32=4, BF16=2, F16=2, I16=2, F8_E4M3=1, F8_E5M2=1, I8=1, U8=1, BOOL=1)  # noqa: C408


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint."""

    name: str
    dtype: str  #: a key of `ITEM_BYTES`
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size of the tensor's data in bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def write_checkpoint(
    folder: Path,
    entries: Sequence[StoredTensor],
    contents: Callable[[StoredTensor], bytes] | None = None,
    *,
    shard_bytes: int = SHARD_BYTES,
    name: str = "model",
) -> list[Path]:
    """Write ``NAME.safetensors``, or shards and their index, and return the files. ``contents`` returns each tensor's bytes;
    None: none are written. Raise OSError if the disk fails."""
    shards = cut(entries, shard_bytes)
    if len(shards) == 1:
        return [write_file(folder / f"{name}.safetensors", shards[0], contents)]
    names = [f"{name}-{index:05d}-of-{len(shards):05d}.safetensors" for index in range(1, len(shards) + 1)]
    index = {
        "metadata": {"total_size": sum(entry.nbytes for entry in entries)},
        "weight_map": {entry.name: file for file, shard in zip(names, shards) for entry in shard},
    }
    made = [write_file(folder / file, shard, contents) for file, shard in zip(names, shards)]
    place = folder / f"{name}.safetensors.index.json"
    place.write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return [*made, place]


def cut(entries: Iterable[StoredTensor], shard_bytes: int) -> list[list[StoredTensor]]:
    """Return the entries in their order, as shards, each as full as possible; a tensor beyond the limit has a shard of its
    own."""
    shards: list[list[StoredTensor]] = [[]]
    held = 0
    for entry in entries:
        if shards[-1] and held + entry.nbytes > shard_bytes:
            shards.append([])
            held = 0
        shards[-1].append(entry)
        held += entry.nbytes
    return shards


def header(entries: Sequence[StoredTensor]) -> bytes:
    """Return the eight bytes of the length, and the JSON, padded so that the data begins at a multiple of eight."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for entry in entries:
        table[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [end, end + entry.nbytes]}
        end += entry.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_file(
    place: Path, entries: Sequence[StoredTensor], contents: Callable[[StoredTensor], bytes | None] | None
) -> Path:
    """Write one file and return it. ``contents`` returns each tensor's bytes, or None to leave them out; None: all are left
    out. Raise OSError if the disk fails."""
    entries = sorted(entries, key=lambda entry: -ITEM_BYTES[entry.dtype])  # so that each is aligned to its own elements
    start = header(entries)
    with place.open("wb") as file:
        file.write(start)
        for entry in entries:
            data = None if contents is None else contents(entry)
            if data is None:
                file.seek(entry.nbytes, 1)
            else:
                file.write(data)
        file.truncate(len(start) + sum(entry.nbytes for entry in entries))
    return place
