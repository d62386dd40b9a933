"""What Dockerfiles and scripts install."""

from __future__ import annotations

import pytest

from dsregress.versions.install_lines import installed_lines
from dsregress.versions.pasted_versions import as_requirements

DOCKERFILE = """FROM nvcr.io/nvidia/pytorch:24.10-py3
ARG DEEPSPEED_VERSION=0.16.3
ENV PIP_NO_CACHE_DIR=1
# RUN pip install deepspeed==0.14.0
RUN apt-get update && pip install --no-cache-dir -U "transformers[torch]==4.48.2" \\
    deepspeed==${DEEPSPEED_VERSION} accelerate==${ACCELERATE} && rm -rf /tmp
RUN --mount=type=cache,target=/root python3 -m pip install -i https://x.test/simple peft==0.14.0 ./own
RUN pip install -r more.txt
RUN uv pip install --system transformers==4.49.0
"""


def test_a_dockerfile_pins_what_its_last_lines_install() -> None:
    assert installed_lines(DOCKERFILE) == [
        "torch @ file:///own",  # NVIDIA's is of a commit
        "transformers==4.49.0",
        "deepspeed==0.16.3",
        "accelerate",
        "peft==0.14.0",
        "-r more.txt",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed==0.16.4\nflash-attn==2.7.4  # pip install flash-attn --no-build-isolation\n",
        "deepspeed==0.16.4\n# then pip install -e .\n",
        "torch==2.8.0 ; python_version < '3.13'\n",
        "",
        "pip==24.0\n",
    ],
)
def test_a_requirements_file_installs_nothing_itself(text: str) -> None:
    assert installed_lines(text) is None
    assert as_requirements(text) == text


def test_a_comment_ends_no_command_that_goes_on() -> None:
    assert installed_lines("RUN pip install trl==0.19.0 \\\n  # for adapters\n  peft==0.14.0 # pinned\n") == [
        "trl==0.19.0",
        "peft==0.14.0",
    ]


def test_a_line_of_a_notebook_or_a_shell() -> None:
    assert installed_lines("!pip install 'trl>=0.9' ; python train.py\n") == ["trl>=0.9"]
    assert installed_lines("$ pip3 install deepspeed==0.17.0\n") == ["deepspeed==0.17.0"]


@pytest.mark.parametrize("shell", ["bash -c", "bash -lc"])
@pytest.mark.parametrize("then", ["", " && deepspeed train.py --deepspeed ds.json"])
def test_a_line_that_a_container_runs(shell: str, then: str) -> None:
    line = f'docker run --gpus all nvcr.io/x:1 {shell} "pip install deepspeed==0.16.4 peft==0.14.0{then}"'
    assert installed_lines(line) == ["deepspeed==0.16.4", "peft==0.14.0"]


def test_rows_of_a_table_without_its_heading() -> None:
    assert as_requirements("deepspeed    0.16.4\ntorch   2.6.0+cu124\n") == "deepspeed==0.16.4\ntorch==2.6.0+cu124"


@pytest.mark.parametrize(
    ("line", "pin"),
    [
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel AS base", "torch==2.5.1"),
        ("FROM --platform=linux/amd64 docker.io/pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "torch==2.5.1"),
        ("    image: pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "torch==2.5.1"),
        ("docker run --gpus all -v /data:/data pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime bash", "torch==2.5.1"),
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "torch==2.5.1"),
        ("FROM rocm/pytorch:rocm6.3_ubuntu22.04_py3.10_pytorch_release_2.5.1", "torch==2.5.1"),
        ("FROM hiyouga/llamafactory:0.9.3", "llamafactory==0.9.3"),
        ("image: nvcr.io/nvidia/pytorch:24.12-py3", "torch @ file:///own"),
    ],
)
def test_the_tag_of_an_image_names_a_release(line: str, pin: str) -> None:
    assert installed_lines(line) == [pin]
    assert installed_lines(f"{line}\nRUN pip install deepspeed==0.16.8\n") == [pin, "deepspeed==0.16.8"]


@pytest.mark.parametrize(
    "line", ["FROM ubuntu:22.04", "FROM pytorch/pytorch:latest", "see pytorch/pytorch:2.5.1-cuda12.4"]
)
def test_another_image_names_none(line: str) -> None:
    assert installed_lines(line) is None


def test_what_an_image_has_stays_unless_it_is_upgraded() -> None:
    image = "ARG TORCH=2.6.0\nFROM pytorch/pytorch:${TORCH}-cuda12.4-cudnn9-devel\n"
    assert installed_lines(f"{image}RUN pip install torch deepspeed==0.16.8") == ["torch==2.6.0", "deepspeed==0.16.8"]
    assert installed_lines(f"{image}RUN pip install -U torch") == ["torch"]
    assert installed_lines(f"{image}RUN pip install torch==2.7.1") == ["torch==2.7.1"]


def test_a_checkout_that_is_installed_keeps_its_tag() -> None:
    line = 'RUN pip install "git+https://github.com/huggingface/transformers.git@v4.51.3" ./own'
    assert installed_lines(line) == ["git+https://github.com/huggingface/transformers.git@v4.51.3"]
