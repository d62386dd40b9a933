"""Programs name data sets and weights of torchvision, without a network. The torchvision here is a tiny one."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
pytest.importorskip("PIL")

from dsregress.programs.substitutes.synthetic_images import made_up_images  # noqa: E402
from dsregress.programs.world.resource_errors import NotHere  # noqa: E402

DATASETS = """
import os

class VisionDataset:
    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        self.root, self.transform, self.target_transform = root, transform, target_transform
        self.transforms = transforms
        if transform is not None:
            self.transforms = lambda image, target: (transform(image), target)

class CIFAR10(VisionDataset):
    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            raise ConnectionError("no network")
        if not os.path.isdir(root):
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        self.data, self.targets = [7], [1]

    def __getitem__(self, index):
        return self.transform(self.data[index]) if self.transform else self.data[index], self.targets[index]

    def __len__(self):
        return len(self.data)

class Flowers102(VisionDataset):
    def __init__(self, root, split="train", transform=None, download=False):
        super().__init__(root, transform=transform)
        if not os.path.isdir(root):
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        if split not in ("train", "val", "test"):
            raise ValueError(split)

    def __getitem__(self, index):
        return 7, 1

    def __len__(self):
        return 3

class CelebA(VisionDataset):
    def __init__(self, root, split="train", target_type="attr", transform=None):
        super().__init__(root, transform=transform)
        self.filename = os.listdir(root)

    def __getitem__(self, index):
        return self.filename[index], self.attr[index]

    def __len__(self):
        return len(self.attr)

class DatasetFolder(VisionDataset):
    def __init__(self, root, loader, transform=None):
        super().__init__(root, transform=transform)
        self.classes = sorted(os.listdir(root))
        self.loader = loader

    def __getitem__(self, index):
        path, label = self.samples[index]
        return self.loader(path), label

    def __len__(self):
        return len(self.samples)

class ImageFolder(DatasetFolder):
    def __init__(self, root, transform=None):
        super().__init__(root, None, transform)

class Odd(VisionDataset):
    def __init__(self, root):
        raise RuntimeError("Dataset not found")

__all__ = ("VisionDataset", "CIFAR10", "Flowers102", "CelebA", "DatasetFolder", "ImageFolder", "Odd")
"""
MODELS = """
import torch

class WeightsEnum:
    def get_state_dict(self, progress=True):
        raise ConnectionError("no network")

class Small_Weights(WeightsEnum):
    pass

def small(weights=None):
    model = torch.nn.Linear(3, 2)
    if weights is not None:
        model.load_state_dict(weights.get_state_dict())
    return model

list_models = lambda: ["small"]
get_model_weights = lambda name: Small_Weights
get_model_builder = lambda name: small
"""


@pytest.fixture(autouse=True)
def torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "site" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from torchvision import datasets, models\n")
    (package / "datasets.py").write_text(DATASETS)
    (package / "models.py").write_text(MODELS)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.chdir(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


def imported(name: str) -> Any:
    return importlib.import_module(f"torchvision.{name}")


def test_as_many_images_of_the_same_kind_are_made_up() -> None:
    with made_up_images(True):
        assert importlib.util.find_spec("torchvision") is not None  # as frameworks ask before
        datasets = imported("datasets")
        train = datasets.CIFAR10("data", download=True, transform=lambda image: image)
        test = datasets.CIFAR10("data", train=False)
        flowers = datasets.Flowers102("data", split="val", transform=lambda image: image.size)
        assert (len(train), len(test), len(flowers)) == (50_000, 10_000, 1_020)
        assert train.data.shape == (50_000, 32, 32, 3)
        assert train.classes[9] == "class 9"
        assert sorted(set(train.targets)) == list(range(10))
        assert flowers[3] == ((667, 500), flowers.targets[3])
        assert max(flowers.targets) == 101
        with pytest.raises(IndexError):
            flowers[1_020]


def test_a_label_may_be_a_row_of_attributes() -> None:
    with made_up_images(True):
        datasets = imported("datasets")

        class Mine(datasets.CelebA):  # type: ignore[misc, name-defined]
            pass

        faces = Mine("data", split="test", transform=lambda image: image.size)
        size, attributes = faces[7]
        assert (len(faces), size, attributes.shape, attributes.unique().tolist()) == (19_962, (178, 218), (40,), [0, 1])
        with pytest.raises(NotHere, match="CelebA is not in data: put its files there"):
            Mine("data", target_type="landmarks")


def test_what_the_program_does_with_them_is_its_own() -> None:
    with made_up_images(True):
        datasets = imported("datasets")

        class Mine(datasets.Flowers102):  # type: ignore[misc, name-defined]
            def __getitem__(self, index: int) -> Any:
                return super().__getitem__(index)[0].size

        assert Mine("data")[0] == (667, 500)
        train = datasets.CIFAR10("data")
        train.data, train.targets = train.data[:5], train.targets[:5]
        assert len(train) == 5


@pytest.mark.parametrize(("root", "classes", "rows"), [("mine/train", 10, 2_048), ("imagenet/val", 1_000, 50_000)])
def test_a_folder_of_the_users_has_images_per_class(root: str, classes: int, rows: int) -> None:
    with made_up_images(True):
        found = imported("datasets").ImageFolder(root)
        assert (len(found.classes), len(found)) == (classes, rows)
        assert found[rows - 1][0].size == (500, 375)
        assert found[5][0].tobytes() == found[5][0].tobytes() != found[6][0].tobytes()


def test_images_are_sent_to_processes_that_are_no_forks() -> None:
    with made_up_images(True):
        datasets = imported("datasets")
        sent = pickle.dumps((datasets.Flowers102("data"), datasets.ImageFolder("mine"), datasets.CIFAR10("data")))
    flowers, folder, arrays = pickle.loads(sent)  # where the classes are as they were installed
    assert (len(flowers), len(folder), len(arrays)) == (1_020, 2_048, 50_000)
    assert flowers[3][0].size == (667, 500)
    assert folder[3][0].size == (500, 375)


def test_what_is_there_is_loaded_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with made_up_images(True):
        datasets = imported("datasets")
        assert datasets.CIFAR10("data")[0] == (7, 1)
        assert len(datasets.Flowers102("data")) == 3
        with pytest.raises(ValueError, match="dev"):
            datasets.Flowers102("data", split="dev")
    with pytest.raises(RuntimeError, match="corrupted"):
        datasets.CIFAR10("elsewhere")


def test_without_the_flag_and_of_unknown_sets_it_is_one_line() -> None:
    with made_up_images(False):
        datasets = imported("datasets")
        with pytest.raises(NotHere, match="test_synthetic_images.py:.* CIFAR10 is not in data: give --synthetic-data"):
            datasets.CIFAR10("data", download=True)
    with made_up_images(True), pytest.raises(NotHere, match="Odd is not in data: put its files there"):
        datasets.Odd("data")


def test_pretrained_weights_are_those_that_a_model_begins_with() -> None:
    with made_up_images(False):
        models = imported("models")
        model = models.small(models.Small_Weights())
    assert model.weight.shape == (2, 3)
    with pytest.raises(ConnectionError):
        models.small(models.Small_Weights())


def test_a_model_of_timm_keeps_the_weights_that_it_begins_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = tmp_path / "timm" / "models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text("")
    (models / "__init__.py").write_text("from timm.models import _builder\n")
    (models / "_builder.py").write_text("def load_pretrained(model):\n    raise ConnectionError('no network')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with made_up_images(wanted=True):
            builder = importlib.import_module("timm.models._builder")
            builder.load_pretrained(torch.nn.Linear(1, 1))
        with pytest.raises(ConnectionError):
            builder.load_pretrained(torch.nn.Linear(1, 1))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
            del sys.modules[name]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
def test_images_that_cannot_be_read_are_not_replaced_by_noise(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    with made_up_images(True):
        datasets = imported("datasets")

        def refuses(*_: Any, **__: Any) -> Any:
            raise OSError(number, os.strerror(number), "data")

        monkeypatch.setattr(datasets.os, "listdir", refuses)
        with pytest.raises(OSError, match=os.strerror(number)):
            datasets.ImageFolder("data")


def test_a_folder_that_may_not_be_looked_into_is_not_replaced_by_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = os.stat

    def refuses(path: Any, *args: Any, **options: Any) -> Any:
        if str(path) == "shut":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return stat(path, *args, **options)

    with made_up_images(True):
        datasets = imported("datasets")
        monkeypatch.setattr(os, "stat", refuses)  # `os.path.isdir` takes it for none
        with pytest.raises(PermissionError):
            datasets.CIFAR10("shut")


def test_weights_that_cannot_be_read_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(imported("models").WeightsEnum, "get_state_dict", refuses)
    with made_up_images(False), pytest.raises(OSError, match="Too many open files"):
        imported("models").small(weights=imported("models").Small_Weights())
