"""Known models of diffusers: name on the hub -> the content of each folder of its repository. Without torch.

A pipeline's repository has a ``model_index.json`` and a folder per component; a repository of one component has it at the
top (`TOP`). ``tables/pipelines.json`` names a component that several have by its key in ``parts``. Sources: the
``config.json`` of each folder (``https://huggingface.co/NAME/blob/main/FOLDER/config.json``) and copies of it in
github.com/lllyasviel/stable-diffusion-webui-forge; of SANA, Wan, CogVideoX, LTX-Video and Stable Diffusion 3.5, the scripts
of diffusers that convert them; of Qwen-Image, Z-Image, Lumina 2 and Stable Video Diffusion, the defaults of diffusers'
classes. Fields are left out whose value is the default of diffusers' class. The ids of text encoders
are those that the repositories give, which are not the tokenizer's. Tests compare the numbers of parameters with published
ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from skeletons.hub_names import mirrored
from skeletons.table_files import read_table

#: The folder of a repository that is one component.
TOP = ""


@dataclasses.dataclass(frozen=True)
class Component:
    """A folder of a repository."""

    library: str  #: ``diffusers`` or ``transformers``
    kind: str  #: its class
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)  #: its configuration
    family: str = ""  #: of a tokenizer, in `skeletons.tokenizer_families`
    dtype: str | None = None  #: of the stored weights; None is fp32


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A repository of diffusers."""

    kind: str  #: class of the pipeline; empty for one component
    components: dict[str, Component]  #: by folder


@functools.cache
def known_pipelines() -> Mapping[str, Pipeline]:
    """Return the repositories of diffusers by their names on the hub. Reads them on the first call."""
    table = read_table("pipelines")
    parts = table["parts"]
    found: dict[str, Pipeline] = {}
    for name, entry in table["pipelines"].items():
        if "same_as" in entry:
            found[name] = found[entry["same_as"]]
        else:
            components = {
                folder: Component(**(parts[part] if isinstance(part, str) else part))
                for folder, part in entry["components"].items()
            }
            found[name] = Pipeline(entry["kind"], components)
    return found


def known_pipeline_name(name: str) -> str | None:
    """Return the known repository that a name on the hub means, itself or a mirror of it, without regard to case; None if
    there is none."""
    given = name.lower()
    return next((known for known in known_pipelines() if known.lower() == given), None) or mirrored(
        name, known_pipelines()
    )
