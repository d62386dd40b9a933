"""Weights that a program downloads by `torch.hub` from a URL: without them, a model keeps its initial ones.

    with hosted_weights():
        ...  # the program

Within the block, ``torch.hub.load_state_dict_from_url`` loads a file that this machine has. In place of one that is not
here it returns `AbsentWeights`, which ``load_state_dict`` of a module does not load: nothing that is measured depends on
values. A program that needs a tensor of theirs ends in the error of the download. torchvision's and timm's own weights are
replaced by `substitutes.synthetic_images`. ``torch.hub.list`` names nothing of a repository that is not here: programs add
its names to those of their own models. One that takes a model from it ends in the error of that download.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from dsregress.programs.world.local_sockets import NoNetworkError
from vgpu.error_chain import behind
from vgpu.replacing import Patches

#: Libraries whose weights have a substitute with all tensors.
_WITH_SUBSTITUTES = ("torchvision", "timm")


class AbsentWeights(OrderedDict[str, object]):
    """A state dict without tensors, of which any part is without tensors as well."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        vars(self)["error"] = error

    def __missing__(self, key: str) -> AbsentWeights:
        return self

    def __delitem__(self, key: str) -> None:
        """Delete nothing: the layers that a program replaces are not here."""

    def get(self, key: str, default: object = None) -> AbsentWeights:
        """Return the same weights for any part."""
        return self

    def pop(self, key: str, *default: object) -> AbsentWeights:  # type: ignore[override]
        """Return the same weights for any part."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # a protocol's, which callers look for
            raise AttributeError(name)
        raise vars(self)["error"]


@contextlib.contextmanager
def hosted_weights() -> Iterator[None]:
    """Do without weights at URLs within the block, as the module describes."""
    import torch

    download: Callable[..., object] = torch.hub.load_state_dict_from_url
    load: Callable[..., object] = torch.nn.Module.load_state_dict
    entries: Callable[..., list[str]] = torch.hub.list
    absent: list[str] = []

    @functools.wraps(download)
    def load_state_dict_from_url(url: str, *args: object, **options: object) -> object:
        try:
            return download(url, *args, **options)
        except OSError as error:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if behind(error, NoNetworkError) is None or caller.partition(".")[0] in _WITH_SUBSTITUTES:
                raise
            absent.append(url)
            return AbsentWeights(error)

    @functools.wraps(entries)
    def list_of_entries(*args: object, **options: object) -> list[str]:
        try:
            return entries(*args, **options)
        except OSError as error:
            if behind(error, NoNetworkError) is None:
                raise
            return []

    @functools.wraps(load)
    def load_state_dict(self: object, state_dict: object, *args: object, **options: object) -> object:
        if absent and isinstance(state_dict, Mapping) and not state_dict:  # or with other keys, and no tensor either
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return load(self, state_dict, *args, **options)

    with Patches("weights at URLs are not loaded") as patches:
        patches.everywhere(download, load_state_dict_from_url, "load_state_dict_from_url")
        patches.replace(torch.hub, "list", list_of_entries)
        patches.replace(torch.hub, "_check_repo_is_trusted", lambda *given, **options: None)  # it asks at the terminal
        patches.replace(torch.nn.Module, "load_state_dict", load_state_dict)
        yield
