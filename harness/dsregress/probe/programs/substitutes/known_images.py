"""Common data sets of torchvision: class -> size, mode, classes and rows of its images. Data, without torch.

Figures are from each data set's own page, as linked in torchvision's documentation; if the images of a data set differ
in size, a usual one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class KnownImages:
    """``layout`` is that of the array that a data set holds, ``rows`` first; None if each image is a file."""

    size: tuple[int, int]  #: height and width
    classes: int
    rows: Mapping[str, int]  #: by split; one without a name is the whole
    mode: str = "RGB"  #: as PIL names it
    layout: str | None = None


def _split(train: int, other: int, **named: int) -> dict[str, int]:
    return {"train": train, "test": other, "val": other, **named}


TABLE: dict[str, KnownImages] = {
    # digits and letters
    "MNIST": KnownImages((28, 28), 10, _split(60_000, 10_000), "L", "tensor"),
    "FashionMNIST": KnownImages((28, 28), 10, _split(60_000, 10_000), "L", "tensor"),
    "KMNIST": KnownImages((28, 28), 10, _split(60_000, 10_000), "L", "tensor"),
    "EMNIST": KnownImages((28, 28), 10, _split(60_000, 10_000), "L", "tensor"),
    "USPS": KnownImages((16, 16), 10, _split(7_291, 2_007), "L", "array"),
    "SEMEION": KnownImages((16, 16), 10, {"": 1_593}, "L", "array"),
    "SVHN": KnownImages((32, 32), 10, _split(73_257, 26_032, extra=531_131), layout="channels_first"),
    # small
    "CIFAR10": KnownImages((32, 32), 10, _split(50_000, 10_000), layout="array"),
    "CIFAR100": KnownImages((32, 32), 100, _split(50_000, 10_000), layout="array"),
    "STL10": KnownImages((96, 96), 10, _split(5_000, 8_000, unlabeled=100_000), layout="channels_first"),
    "EuroSAT": KnownImages((64, 64), 10, {"": 27_000}),
    "FER2013": KnownImages((48, 48), 7, _split(28_709, 3_589), "L"),
    "GTSRB": KnownImages((50, 50), 43, _split(26_640, 12_630)),
    "PCAM": KnownImages((96, 96), 2, _split(262_144, 32_768)),
    # objects and scenes
    "Caltech101": KnownImages((200, 300), 101, {"": 8_677}),
    "Caltech256": KnownImages((325, 371), 257, {"": 30_607}),
    "Country211": KnownImages((500, 500), 211, _split(31_650, 21_100, valid=10_550)),
    "DTD": KnownImages((500, 500), 47, _split(1_880, 1_880)),
    "FGVCAircraft": KnownImages((695, 1024), 100, _split(3_334, 3_333, trainval=6_667)),
    "Flowers102": KnownImages((500, 667), 102, _split(1_020, 6_149, val=1_020)),
    "Food101": KnownImages((512, 512), 101, _split(75_750, 25_250)),
    "ImageNet": KnownImages((375, 500), 1_000, _split(1_281_167, 50_000)),
    "Imagenette": KnownImages((375, 500), 10, _split(9_469, 3_925)),
    "OxfordIIITPet": KnownImages((375, 500), 37, _split(3_680, 3_669, trainval=3_680)),
    "Places365": KnownImages((256, 256), 365, _split(1_803_460, 36_500)),
    "RenderedSST2": KnownImages((448, 448), 2, _split(6_920, 1_821)),
    "StanfordCars": KnownImages((483, 700), 196, _split(8_144, 8_041)),
    "SUN397": KnownImages((500, 500), 397, {"": 108_754}),
    # a folder of the user's, per class a folder in it
    "ImageFolder": KnownImages((375, 500), 10, _split(2_048, 256)),
}


def images_of_folder(path: str) -> KnownImages:
    """Return ImageNet's classes and rows for a folder whose path contains ``imagenet``, else those of an ordinary
    folder."""
    return TABLE["ImageNet" if "imagenet" in path.lower() else "ImageFolder"]
