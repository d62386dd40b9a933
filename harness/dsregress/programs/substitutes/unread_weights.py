"""Weights that a simulation loads: their files are opened and counted, but no byte of them is read.

A tensor of a safetensors file is a view of the file, mapped into memory. Converting it (a bf16 checkpoint loaded in
fp32, the default of transformers 4) would read all of it: tens of gigabytes of real memory. So in a simulation its
contents are unknown from the start (`vgpu.sim.host`), and a conversion costs only what the books charge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from vgpu.replacing import Patches


@contextlib.contextmanager
def unread_weights() -> Iterator[None]:
    """Make ``safetensors.safe_open`` return tensors without contents within the block, in threads in which a simulation
    runs."""
    try:
        import safetensors
    except ImportError:
        yield
        return
    original = safetensors.safe_open

    class UnreadFile:
        def __init__(self, *args: Any, **options: object) -> None:
            self._file = original(*args, **options)

        def __enter__(self) -> UnreadFile:
            self._file.__enter__()
            return self

        def __exit__(self, *raised: object) -> Any:
            return self._file.__exit__(*raised)

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._file, name)
            return self._get_tensors if name == "get_tensors" else found  # from safetensors 0.8 on

        def _get_tensors(self) -> dict[str, object]:
            return {name: _unread(tensor) for name, tensor in self._file.get_tensors().items()}

        def get_tensor(self, name: str) -> object:
            return _unread(self._file.get_tensor(name))

        def get_slice(self, name: str) -> _Slice:
            return _Slice(self._file.get_slice(name))

    with Patches("loaded contents are not read") as patches:
        patches.everywhere(original, UnreadFile, "safe_open")
        yield


class _Slice:
    """A tensor of the file, of which parts are taken."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def __getitem__(self, index: Any) -> object:
        return _unread(self._held[index])


def _unread(tensor: Any) -> Any:
    mode = running_simulation()
    if mode is not None and not tensor.is_meta and tensor.is_floating_point():
        mode.forget(tensor)
    return tensor


def running_simulation() -> Any:
    """Return the mode of the simulation that runs in this thread; None if there is none."""
    from torch.utils import _python_dispatch

    modes = _python_dispatch._get_current_dispatch_mode_stack()
    return next((mode for mode in reversed(modes) if hasattr(mode, "forget")), None)
