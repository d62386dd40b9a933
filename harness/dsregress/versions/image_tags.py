"""The releases that the tag of a container's image names. Pure."""

from __future__ import annotations

import re

#: A line that names an image: of a Dockerfile, of compose's and Kubernetes' YAML, or the image alone.
_BEFORE = r"FROM\s+(?:--platform=\S+\s+)?|-?\s*image:\s*[\"']?|\$?\s*(?:docker|podman)\s+(?:run|pull)\s(?:.{0,400}?\s)?"
_LINE = re.compile(rf"^\s*(?:{_BEFORE})?(?P<image>[a-z][\w./-]*/[\w.-]+:[\w.-]+)(?=[\s\"']|$)", re.IGNORECASE)

#: Image -> the package whose release its tag begins with.
_RELEASES = {"pytorch/pytorch": "torch", "deepspeed/deepspeed": "deepspeed", "vllm/vllm-openai": "vllm"}
_RELEASES |= {"hiyouga/llamafactory": "llamafactory"}

#: Images with a torch that is no release: NVIDIA's is of a commit, with changes of its own.
_OWN_TORCH = re.compile(r"nvcr\.io/nvidia/(?:pytorch|nemo\S*)$")

#: The release in the tag of an image that names it after the word: ``rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.5.1``.
_AFTER_WORD = re.compile(r"pytorch(?:[_-]release)?[_-]?(?P<release>\d+\.\d+\.\d+)")
_FIRST = re.compile(r"v?(?P<release>\d+\.\d+\.\d+)(?:[_-]|$)")


def packages_of_image(line: str) -> str:
    """Return the requirement that the image in a line brings: ``torch==2.5.1`` of ``FROM pytorch/pytorch:2.5.1-cuda12.4``,
    ``torch @ file:///own`` of NVIDIA's; empty if it names none."""
    found = _LINE.match(line)
    if found is None:
        return ""
    name, _, tag = found["image"].removeprefix("docker.io/").rpartition(":")
    if _OWN_TORCH.match(name):
        return "torch @ file:///own"
    if (package := _RELEASES.get(name)) is not None and (release := _FIRST.match(tag)) is not None:
        return f"{package}=={release['release']}"
    after = _AFTER_WORD.search(tag)
    return f"torch=={after['release']}" if after is not None else ""
