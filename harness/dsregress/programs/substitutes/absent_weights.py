"""Weights that are not on this machine: without them, a model keeps its initial ones.

    with absent_weights():
        ...  # the program

Within the block, ``torch.hub.load_state_dict_from_url`` loads a file that this machine has. In place of one that is not
here it returns `AbsentWeights`; so do ``torch.load`` and safetensors' ``load_file`` in place of a made-up file
(`synthetic_files`). A module or an optimizer does not load them: nothing that is measured in `sim` depends on values, and
with values, each release begins with the same initial ones. A program that needs a tensor of theirs ends in the error that
names the file. torchvision's and timm's own weights are replaced by `substitutes.synthetic_images`. ``torch.hub.list``
names nothing of a repository that is not here: programs add its names to those of their own models. One that takes a model
from it ends in the error of that download.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from dsregress.programs.substitutes import synthetic_files
from dsregress.programs.world.local_sockets import NoNetworkError
from dsregress.programs.world.resource_errors import NotHere
from vgpu.error_chain import behind
from vgpu.replacing import Patches

#: Libraries whose weights have a substitute with all tensors.
_WITH_SUBSTITUTES = ("torchvision", "timm")

#: What is said of weights of which a program needs more than that they are loaded.
NEEDED = "is not here, and the program needs what is in it"


class AbsentWeights(OrderedDict[str, object]):
    """A state dict without tensors, of which any part is without tensors as well."""

    def __init__(self, place: str, error: Callable[[], Exception]) -> None:
        super().__init__()
        # The error is made when it is raised: a refusal that is made counts as said.
        vars(self).update(place=place, error=error)

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
        raise vars(self)["error"]()

    def _refuse(self, *given: object) -> NoReturn:
        raise vars(self)["error"]()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __int__ = __float__ = __index__ = _refuse


def needed_weights(error: BaseException) -> str:
    """Return the file, or the address, of the weights without which a program failed; empty unless one of the functions in
    which it failed has them in a variable."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in list(frame.f_locals.values()):
            if isinstance(value, AbsentWeights):
                return str(vars(value)["place"])
    return ""


@contextlib.contextmanager
def absent_weights() -> Iterator[None]:
    """Do without weights that are not here within the block, as the module describes."""
    absent: list[str] = []
    with Patches("weights that are not here are not loaded") as patches:
        _answer_hub(patches, absent)
        _answer_files(patches, absent)
        _keep_initial_values(patches, absent)
        yield


def _answer_hub(patches: Patches, absent: list[str]) -> None:
    import torch

    download: Callable[..., object] = torch.hub.load_state_dict_from_url
    entries: Callable[..., list[str]] = torch.hub.list

    @functools.wraps(download)
    def load_state_dict_from_url(url: str, *args: object, **options: object) -> object:
        try:
            return download(url, *args, **options)
        except OSError as error:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if behind(error, NoNetworkError) is None or caller.partition(".")[0] in _WITH_SUBSTITUTES:
                raise
            absent.append(url)
            refused = error
            return AbsentWeights(url, lambda: refused)

    @functools.wraps(entries)
    def list_of_entries(*args: object, **options: object) -> list[str]:
        try:
            return entries(*args, **options)
        except OSError as error:
            if behind(error, NoNetworkError) is None:
                raise
            return []

    patches.everywhere(download, load_state_dict_from_url, "load_state_dict_from_url")
    patches.replace(torch.hub, "list", list_of_entries)
    patches.replace(torch.hub, "_check_repo_is_trusted", lambda *given, **options: None)  # it asks at the terminal


def _answer_files(patches: Patches, absent: list[str]) -> None:
    import torch

    def answering(load: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(load)
        def loaded(file: object, *args: object, **options: object) -> object:
            path = getattr(file, "name", file)
            if not isinstance(path, (str, os.PathLike)) or not synthetic_files.stands_for_weights(path):
                return load(file, *args, **options)
            absent.append(os.fspath(path))
            place = os.path.relpath(path)
            return AbsentWeights(place, lambda: NotHere(f"{place} {NEEDED}", "put it there"))

        return loaded

    patches.everywhere(torch.load, answering(torch.load), "load")
    with contextlib.suppress(ImportError):
        from safetensors import torch as files

        patches.everywhere(files.load_file, answering(files.load_file), "load_file")


def _keep_initial_values(patches: Patches, absent: list[str]) -> None:
    import torch

    load: Callable[..., object] = torch.nn.Module.load_state_dict
    resume: Callable[..., object] = torch.optim.Optimizer.load_state_dict

    @functools.wraps(load)
    def load_state_dict(self: object, state_dict: object, *args: object, **options: object) -> object:
        if absent and isinstance(state_dict, Mapping) and not state_dict:  # or with other keys, and no tensor either
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return load(self, state_dict, *args, **options)

    @functools.wraps(resume)
    def load_optimizer(self: object, state_dict: object, *args: object, **options: object) -> Any:
        return None if isinstance(state_dict, AbsentWeights) else resume(self, state_dict, *args, **options)

    patches.replace(torch.nn.Module, "load_state_dict", load_state_dict)
    patches.replace(torch.optim.Optimizer, "load_state_dict", load_optimizer)
