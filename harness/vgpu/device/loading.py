"""``torch.load`` onto the virtual card: each storage of the file is copied there once, as torch does.

In sim a tensor of the card has no contents to save: a file keeps only its shape, and that it was on the card.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
import torch._utils as rebuilding
from torch import _weights_only_unpickler

from vgpu.replacing import Patches

#: From where a tensor was saved (``cpu``, ``cuda:0``) to where it is wanted.
_Destination = Callable[[str], Any]


class MapsDevices(Protocol):
    """The part of `vgpu.device.devices.DeviceMapping` that loading needs."""

    shows_cuda: bool
    ordinals: Any

    def names_cuda(self, device: object) -> bool: ...

    def mapped(self, device: object) -> object: ...

    def placing(self, device: object) -> AbstractContextManager[None]: ...


def mapped(patches: Patches, mapping: MapsDevices) -> None:
    """Replace ``torch.load``, and in sim ``torch.save``, so that the devices in a file and in ``map_location`` are the
    card's."""
    real = torch.load

    def load(f: object, map_location: object = None, *args: object, **kwargs: object) -> Any:
        if not mapping.shows_cuda or map_location == "meta" or map_location == torch.device("meta"):
            where = map_location
            if isinstance(where, dict):
                where = {source: mapping.mapped(device) for source, device in where.items()}
            elif not callable(where):
                where = mapping.mapped(where)
            with mapping.placing(map_location if map_location is not None else "cpu"):
                return real(f, where, *args, **kwargs)
        with Patches("files are loaded to the mapped device") as here:
            _rebuilt(here, mapping, _destination(map_location))
            _forget_functions()
            try:
                return real(f, "cpu", *args, **kwargs)
            finally:
                _forget_functions()

    patches.replace(torch, "load", load)
    if mapping.shows_cuda:
        from torch import serialization

        def save(*args: object, **kwargs: object) -> None:
            with torch._C.DisableTorchFunction():  # what is on the card is seen as what it is: a shape
                serialization.save(*args, **kwargs)  # as it is by then: it may be watched

        patches.replace(torch, "save", save)


def _forget_functions() -> None:
    """Clear the table of allowed functions that torch's weights-only reader caches."""
    reader: Any = _weights_only_unpickler
    reader._get_allowed_globals.cache_clear()


def _destination(map_location: object) -> _Destination:
    if map_location is None:
        return lambda saved: saved
    if isinstance(map_location, dict):
        return lambda saved: map_location.get(saved, saved)
    if not callable(map_location):
        return lambda saved: map_location

    def wanted(saved: str) -> Any:
        answer = map_location(_Storage(), saved)
        return saved if answer is None else answer.wanted

    return wanted


class _Storage:
    """The storage that a callable ``map_location`` gets and returns. It records the wanted device; it is on the host when
    the callable runs."""

    def __init__(self, wanted: object = "cpu") -> None:
        self.wanted = wanted

    def cuda(self, device: object = None, *_: object, **__: object) -> _Storage:
        return _Storage("cuda" if device is None else device)

    def cpu(self) -> _Storage:
        return _Storage()

    def to(self, *, device: object, **_: object) -> _Storage:
        return _Storage(device)


def _rebuilt(patches: Patches, mapping: MapsDevices, destination: _Destination) -> None:
    """Replace the rebuilding of both kinds of tensors in a file: those with contents, and those of the card."""
    from_contents: Any = rebuilding._rebuild_tensor
    copies: dict[int, tuple[Any, torch.Tensor]] = {}  #: by storage, which is kept so that its address stays its own

    def _rebuild_tensor(storage: object, storage_offset: int, size: object, stride: object) -> torch.Tensor:
        made: torch.Tensor = from_contents(storage, storage_offset, size, stride)
        device = destination("cpu")
        if not made.numel() or not (isinstance(device, int) or mapping.names_cuda(device)):
            return made
        whole = made.untyped_storage()
        if whole._cdata not in copies:
            elements = whole.nbytes() // made.element_size()
            copies[whole._cdata] = (storage, made.as_strided((elements,), (1,), 0).to(device))
        copy = copies[whole._cdata][1]
        if copy.dtype != made.dtype:
            return made.to(device)
        return copy.as_strided(size, stride, storage_offset).detach()

    def _rebuild_meta_tensor_no_storage(
        dtype: object, size: object, stride: object, requires_grad: bool
    ) -> torch.Tensor:
        device = destination(f"cuda:{mapping.ordinals.current}")
        return torch.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)

    patches.replace(rebuilding, "_rebuild_tensor", _rebuild_tensor)
    patches.replace(rebuilding, "_rebuild_meta_tensor_no_storage", _rebuild_meta_tensor_no_storage)
