"""Synthesizes torchvision's image data sets, and skips pretrained weights of its models and timm's, if they are not on
this machine.

    with made_up_images(wanted):
        ...  # the program

Within the block, a class of ``torchvision.datasets`` loads its files if they exist. If they do not, it is one line
(`NotHere`) or, if that is ``wanted``, an instance that holds noise: as many images of the same size and mode, and as
many classes, as the real data set has (`substitutes.known_images`). The class's own processing and transforms
are unchanged.

A model keeps its initial weights in place of pretrained ones: nothing that is measured depends on them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from dsregress.programs.substitutes import known_images
from dsregress.programs.substitutes.known_images import KnownImages
from dsregress.programs.world.resource_errors import NotHere, is_absence
from vgpu.replacing import Patches

_PACKAGE = "torchvision"
_REPLACED = "_harness_reads"  #: marks a method that is replaced already


@contextlib.contextmanager
def made_up_images(wanted: bool) -> Iterator[None]:
    """Synthesize missing images within the block, as the module describes. Import nothing for it."""
    with Patches("images and pretrained weights without a download") as patches:
        patches.enter_context(_when_imported(_PACKAGE, lambda: _replace_datasets(patches, wanted)))
        patches.enter_context(_when_imported("timm.models._builder", lambda: _keep_first_weights_of_timm(patches)))
        yield


@contextlib.contextmanager
def _when_imported(name: str, then: Callable[[], None]) -> Iterator[None]:
    """Call ``then`` within the block once the module is imported; at once if it already is."""
    if name in sys.modules:
        then()
        yield
        return
    finder = _Watcher(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()


class _Watcher(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._asks = False

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self._asks:
            return None
        self._asks = True
        try:
            spec = importlib.util.find_spec(fullname)  # by the finders after this one
        finally:
            self._asks = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                if self in sys.meta_path:
                    self.leave()
                    self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _replace_datasets(patches: Patches, wanted: bool) -> None:
    from torchvision import datasets, models

    for name in datasets.__all__:
        kind = getattr(datasets, name)
        if not (isinstance(kind, type) and issubclass(kind, datasets.VisionDataset)):
            continue
        methods = vars(kind)
        if "__init__" in methods and kind is not datasets.VisionDataset:
            patches.replace(kind, "__init__", _begun(methods["__init__"], datasets, wanted))
        _read_images(kind, patches.replace)
    enum = getattr(models, "WeightsEnum", None)
    if enum is not None:
        patches.replace(enum, "get_state_dict", _first_weights(enum.get_state_dict, models))


# -- data sets ---------------------------------------------------------------------------------------------------------


def _begun(original: Callable[..., None], datasets: object, wanted: bool) -> Callable[..., None]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: object, *args: object, **options: object) -> None:
        try:
            original(self, *args, **options)
        except Exception as error:  # releases report absent data by errors of many kinds; all others are raised again
            if not _is_absence(error):
                raise
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            given = {**bound.arguments, **bound.arguments.get("kwargs", {})}
            _make_up(self, datasets, given, wanted, error)

    return __init__


def _is_absence(error: Exception) -> bool:
    """Return True for missing files or a failed download. Any other error is the program's own."""
    if isinstance(error, NotHere):
        return False
    if isinstance(error, RuntimeError):
        return re.search(r"not found|download|not present", str(error)) is not None
    return is_absence(error)


def _make_up(dataset: Any, datasets: Any, given: dict[str, Any], wanted: bool, error: Exception) -> None:
    """Fill the data set with noise of the real one's size. Raise NotHere if that is not wanted or its size is unknown,
    and OSError for a folder that exists but cannot be read, which a library takes for a missing one."""
    name = next(kind.__name__ for kind in type(dataset).__mro__ if kind.__module__.startswith(f"{_PACKAGE}."))
    root = os.fspath(given.get("root") or "")
    with contextlib.suppress(FileNotFoundError):
        os.stat(root)
    what = f"the data set {name} is not in {root or 'its folder'}"
    if not wanted:
        raise NotHere(what, "give --synthetic-data for made-up images, or put its files there") from error
    of_a_class = given.get("target_type", "attr") in ("attr", ["attr"])
    if name not in known_images.known_image_sets() or not of_a_class:
        raise NotHere(what, "put its files there, as no made-up images are known for it") from error
    known = known_images.images_of_folder(root) if name == "ImageFolder" else known_images.known_image_sets()[name]
    transforms = {way: given.get(way) for way in ("transforms", "transform", "target_transform")}
    datasets.VisionDataset.__init__(dataset, root, **transforms)
    rows = _row_count(known, given, root)
    labels = [(index * 2_654_435_761 >> 7) % known.classes for index in range(rows)]
    if not hasattr(type(dataset), "classes"):
        dataset.classes = [f"class {label}" for label in range(known.classes)]
    if not hasattr(type(dataset), "class_to_idx"):
        dataset.class_to_idx = {title: label for label, title in enumerate(dataset.classes)}
    seed = zlib.crc32(f"{name} {rows}".encode())
    if known.layout is not None:
        dataset.data, dataset.targets = _arrays(known, labels, seed)
        dataset.labels = dataset.targets
    elif isinstance(dataset, datasets.DatasetFolder):
        dataset.samples = dataset.imgs = [(f"{index}.jpeg", label) for index, label in enumerate(labels)]
        dataset.targets, dataset.extensions = labels, (".jpeg",)
        dataset.loader = functools.partial(_image_at, known, seed)
    else:
        dataset._harness_images = _Images(type(dataset), known, seed)
        dataset._labels = dataset.targets = labels
        if known.attributes:
            dataset.attr = dataset.targets = _attributes(known, rows, seed)


def _row_count(known: KnownImages, given: dict[str, object], root: str) -> int:
    split = given.get("split", given.get("image_set"))
    if split is None:
        last = os.path.basename(root.rstrip(os.sep)).lower()
        is_other = given.get("train") is False or last.startswith(("val", "test"))
        split = "test" if is_other else "train"
    return known.rows.get(str(split), known.rows.get("train", known.rows.get("", 0)))


def _attributes(known: KnownImages, rows: int, seed: int) -> object:
    import numpy
    import torch

    return torch.from_numpy(numpy.random.default_rng(seed).integers(0, 2, (rows, known.attributes)))


def _arrays(known: KnownImages, labels: list[int], seed: int) -> tuple[object, object]:
    import numpy

    shape = (len(labels), *known.size) if known.mode == "L" else (len(labels), *known.size, 3)
    pixels = numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8)
    if known.layout == "tensor":
        import torch

        return torch.from_numpy(pixels), torch.tensor(labels)
    if known.layout == "channels_first":
        return numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), numpy.array(labels)
    return pixels, labels


def _image(known: KnownImages, seed: int, index: int) -> object:
    import numpy
    from PIL import Image

    shape = known.size if known.mode == "L" else (*known.size, 3)
    return Image.fromarray(numpy.random.default_rng((seed, index)).integers(0, 256, shape, dtype=numpy.uint8))


def _image_at(known: KnownImages, seed: int, path: str) -> object:
    return _image(known, seed, int(os.path.basename(path).partition(".")[0]))


class _Images:
    """The images of a data set. In a process that is no fork of the program, torchvision is as it was installed, so
    unpickling them replaces there how the data set is read."""

    def __init__(self, kind: type, known: KnownImages, seed: int) -> None:
        self._made_of = (kind, known, seed)

    def __call__(self, index: int) -> object:
        return _image(*self._made_of[1:], index)

    def __reduce__(self) -> tuple[object, ...]:
        return _images_of_another_process, self._made_of


def _images_of_another_process(kind: type, known: KnownImages, seed: int) -> _Images:
    for one in kind.__mro__:
        reads = vars(one).get("__getitem__")
        if one.__module__.startswith(f"{_PACKAGE}.") and reads is not None and not hasattr(reads, _REPLACED):
            _read_images(one, setattr)
    return _Images(kind, known, seed)


def _read_images(kind: type, replace: Callable[[type, str, object], None]) -> None:
    """Replace how a class of data sets is read."""
    methods = vars(kind)
    if "__getitem__" in methods and "__len__" in methods:
        replace(kind, "__getitem__", _reading_images(methods["__getitem__"]))
        replace(kind, "__len__", _counted(methods["__len__"]))


def _reading_images(original: Callable[..., Any]) -> Callable[..., object]:
    @functools.wraps(original)
    def __getitem__(self: Any, index: Any) -> object:
        images = vars(self).get("_harness_images")
        if images is None:
            return original(self, index)
        if not 0 <= index < len(self.targets):
            raise IndexError(index)
        image, label = images(int(index)), self.targets[index]
        return (image, label) if self.transforms is None else self.transforms(image, label)

    setattr(__getitem__, _REPLACED, True)
    return __getitem__


def _counted(original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def __len__(self: Any) -> int:
        return original(self) if "_harness_images" not in vars(self) else len(self.targets)

    return __len__


# -- weights -----------------------------------------------------------------------------------------------------------


def _first_weights(original: Callable[..., Any], models: Any) -> Callable[..., object]:
    @functools.wraps(original)
    def get_state_dict(self: object, *args: object, **options: object) -> object:
        try:
            return original(self, *args, **options)
        except OSError as error:
            if not is_absence(error):
                raise
            import torch

            names = [name for name in models.list_models() if models.get_model_weights(name) is type(self)]
            if not names:
                raise
            builder = models.get_model_builder(names[0])
            bare = {"weights": None}
            if "weights_backbone" in inspect.signature(builder).parameters:
                bare["weights_backbone"] = None
            with torch.random.fork_rng(devices=[]):
                return builder(**bare).state_dict()

    return get_state_dict


def _keep_first_weights_of_timm(patches: Patches) -> None:
    builder = sys.modules["timm.models._builder"]
    original = builder.load_pretrained

    @functools.wraps(original)
    def load_pretrained(*args: object, **options: object) -> None:
        try:
            original(*args, **options)
        except (NotHere, OSError) as error:
            if not isinstance(error, NotHere) and not is_absence(error):
                raise
            return  # raised by what fetches them, before the model is touched

    patches.replace(builder, "load_pretrained", load_pretrained)
