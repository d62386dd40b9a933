"""Refreshes the caches in which frameworks keep whether a package is installed: those imported before a stand-in existed
have cached that it is not."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from vgpu.replacing import Patches
from vgpu.stand_ins.finder import Package

#: Words in the names of functions that look for a package.
_WORDS = {
    "flash_attn": ("flash_attn",), "bitsandbytes": ("bitsandbytes", "bnb"), "liger_kernel": ("liger",),
    "triton": ("triton",),
}  # fmt: skip
#: Modules of frameworks that check which packages are installed, and keep the answers.
_ASKING = (
    "accelerate.utils.imports", "diffusers.utils.import_utils", "optimum.utils.import_utils", "peft.import_utils",
    "swift.utils.import_utils", "transformers.utils.import_utils", "trl.import_utils",
)  # fmt: skip
#: Looks for flash_attn while it is imported, in releases of transformers from 4.43 to 4.52.
_ASK_AT_THE_TOP = "transformers.modeling_flash_attention_utils"


@contextlib.contextmanager
def refreshed(packages: Sequence[Package]) -> Iterator[None]:
    """Make frameworks find the packages within the block: their cached answers are dropped, here and at the end."""
    with Patches("frameworks keep that the package is absent") as patches:
        patches.callback(_forget, packages)  # once the rest is put back
        for module in _import_utils():
            for package in packages:
                _set(patches, module, package)
        _forget(packages)
        asked = sys.modules.get(_ASK_AT_THE_TOP)
        if (
            asked is not None
            and any(package.name == "flash_attn" for package in packages)
            and "is_flash_attn_2_available" in vars(asked)
            and not hasattr(asked, "_lazy_imports")
        ):
            patches.enter_context(_imported_again(asked))
        yield


@contextlib.contextmanager
def _imported_again(module: ModuleType) -> Iterator[None]:
    """Reload a module within the block, for all names that the release defines if the package is installed, which its models
    import by the same answer. Objects that others imported from the module before share its names."""
    before = dict(vars(module))
    try:
        importlib.reload(module)
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)


def _import_utils() -> list[object]:
    """Return the modules of `_ASKING` that have been imported."""
    return [sys.modules[name] for name in _ASKING if name in sys.modules]


def _set(patches: Patches, module: object, package: Package) -> None:
    major = package.version.partition(".")[0]
    for constant in (
        f"_{package.name}_available",
        f"_{package.name}_{major}_available",
    ):  # the latter: transformers 4.35
        was = vars(module).get(constant)
        if was is False:
            patches.replace(module, constant, True)
        elif isinstance(was, tuple):
            patches.replace(module, constant, (True, package.version))
    version = f"_{package.name}_version"
    if version in vars(module):
        patches.replace(module, version, package.version)
    distributions = vars(module).get("PACKAGE_DISTRIBUTION_MAPPING")
    if isinstance(distributions, dict):
        patches.replace(module, "PACKAGE_DISTRIBUTION_MAPPING", {**distributions, package.name: [package.distribution]})


def _forget(packages: Sequence[Package]) -> None:
    words = [word for package in packages for word in _WORDS[package.name]]
    for module in _import_utils():
        for name, value in list(vars(module).items()):
            clear = getattr(value, "cache_clear", None)
            if clear is not None and (name == "_is_package_available" or any(word in name for word in words)):
                clear()
