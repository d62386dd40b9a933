"""Weights that a simulation saves: their files have the real names, headers and sizes, and no contents if these are
unknown.

A checkpoint of 70B parameters would otherwise be 140 GB of zeros on this disk. What a program filled itself (its data,
its random states) is written unchanged.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dsregress.programs.substitutes.unread_weights import running_simulation
from skeletons.safetensors import StoredTensor, write_file
from vgpu.replacing import Patches

#: torch's names of dtypes -> those of a safetensors file.
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


@contextlib.contextmanager
def unwritten_weights() -> Iterator[None]:
    """Make ``torch.save`` and ``safetensors.torch.save_file`` leave out unknown contents within the block, in threads in
    which a simulation runs."""
    with Patches("unknown contents are not saved") as patches:
        _leave_out_of_torchs(patches)
        _leave_out_of_safetensors(patches)
        yield


def _leave_out_of_torchs(patches: Patches) -> None:
    import torch

    if not patches.has(torch._C.PyTorchFileWriter, "write_record_metadata", since="torch 2.6"):
        return  # they are written
    original: Any = torch.serialization._save

    @functools.wraps(original)
    def _save(obj: object, zip_file: object, *args: object, **options: object) -> object:
        mode = running_simulation()
        return original(obj, zip_file if mode is None else _SparseArchive(zip_file, mode), *args, **options)

    patches.replace(torch.serialization, "_save", _save)


class _SparseArchive:
    """A writer of torch's archives that leaves out unknown contents."""

    def __init__(self, archive: Any, mode: Any) -> None:
        self._archive, self._mode = archive, mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    def write_record(self, name: str, data: Any, nbytes: int) -> None:
        entry = self._mode.ledger.find(data) if hasattr(data, "_cdata") else None
        if entry is not None and entry.ghost:
            self._archive.write_record_metadata(name, nbytes)
        else:
            self._archive.write_record(name, data, nbytes)


def _leave_out_of_safetensors(patches: Patches) -> None:
    try:
        import safetensors.torch as files
    except ImportError:
        return
    original = files.save_file

    @functools.wraps(original)
    def save_file(tensors: Mapping[str, Any], filename: Any, metadata: object = None) -> None:
        mode = running_simulation()
        unknown = {name for name, tensor in tensors.items() if mode is not None and mode.is_ghost(tensor)}
        dtypes = {name: _DTYPES.get(str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors.items()}
        if not unknown or None in dtypes.values():
            original(tensors, filename, metadata)
            return

        def write(*_: object, **__: object) -> None:
            """Replace the function that writes, which is called once the tensors are validated."""
            entries = [StoredTensor(name, str(dtypes[name]), tuple(tensor.shape)) for name, tensor in tensors.items()]
            write_file(
                Path(filename), entries, lambda entry: None if entry.name in unknown else _bytes(tensors[entry.name])
            )

        with Patches("unknown contents are not saved") as within:
            within.replace(files, "serialize_file", write)
            # Releases that have it copy everything first.
            within.replace(files, "_tobytes", lambda *_: b"", until="safetensors 0.7")
            original(tensors, filename, metadata)

    patches.everywhere(original, save_file, "save_file")
    patches.everywhere(original, save_file, "safe_save_file")


def _bytes(tensor: Any) -> bytes:
    import torch

    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return bytes(flat.numpy().tobytes())
