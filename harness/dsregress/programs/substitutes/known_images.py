"""Common data sets of torchvision: class -> size, mode, classes and rows of its images. Without torch.

``known_images.json`` has them; ``ImageFolder`` is a folder of the user's, with a folder per class in it. Figures are from
each data set's own page, as linked in torchvision's documentation; if the images of a data set differ in size, a usual one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class KnownImages:
    """``layout`` is that of the array that a data set holds, ``rows`` first; None if each image is a file."""

    size: tuple[int, int]  #: height and width
    classes: int
    rows: Mapping[str, int]  #: by split; one without a name is the whole
    mode: str = "RGB"  #: as PIL names it
    layout: str | None = None
    attributes: int = 0  #: of each image, 0 or 1, in place of a class


@functools.cache
def known_image_sets() -> Mapping[str, KnownImages]:
    """Return class of torchvision -> its images. Reads them on the first call."""
    entries = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {name: KnownImages(**{**entry, "size": tuple(entry["size"])}) for name, entry in entries.items()}


def images_of_folder(path: str) -> KnownImages:
    """Return ImageNet's classes and rows for a folder whose path contains ``imagenet``, else those of an ordinary
    folder."""
    return known_image_sets()["ImageNet" if "imagenet" in path.lower() else "ImageFolder"]
