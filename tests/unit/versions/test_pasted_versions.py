"""What people paste into reports is read like `pip freeze`."""

from __future__ import annotations

import pytest

from dsregress.versions.installed import read_packages

PIP_LIST = b"""
$ pip list
Package                  Version       Editable project location
------------------------ ------------- -------------------------
accelerate               1.2.1
deepspeed                0.16.4
my-trainer               0.1           /home/me/trainer
torch                    2.6.0+cu124
[notice] A new release of pip is available: 24.0 -> 25.0
"""

ENVIRONMENT = b"""Copy-and-paste the text below in your GitHub issue and FILL OUT the two last points.

- `transformers` version: 4.50.3
- Platform: Linux-5.15.0-x86_64-with-glibc2.35
- Python version: 3.10.12
- Huggingface_hub version: 0.30.1
- Accelerate version: 1.6.0
- Accelerate config:    not found
- DeepSpeed version: not installed
- PyTorch version (GPU?): 2.6.0+cu124 (True)
- Tensorflow version (GPU?): not installed (NA)
- Using distributed or parallel set-up in script?: <fill in>
- GPU type: NVIDIA A100-SXM4-80GB
"""


def test_the_table_of_pip_list_is_read() -> None:
    assert read_packages(PIP_LIST, "list.txt").versions == {
        "accelerate": "1.2.1",
        "deepspeed": "0.16.4",
        "my-trainer": "0.1",
        "torch": "2.6.0",
    }


CONDA_LIST = b"""# packages in environment at /opt/conda/envs/train:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
deepspeed                 0.16.8                   pypi_0    pypi
python                    3.11.9               h955ad1f_0
pytorch                   2.6.0           py3.11_cuda12.4_cudnn9.1.0_0    pytorch
"""

CONDA_EXPORT = b"""# This file may be used to create an environment using:
# $ conda create --name <env> --file <this file>
_libgcc_mutex=0.1=main
deepspeed=0.16.8=pypi_0
python=3.11.9=h955ad1f_0
pytorch=2.6.0=py3.11_cuda12.4_cudnn9.1.0_0
"""


@pytest.mark.parametrize("text", [CONDA_LIST, CONDA_EXPORT])
def test_both_forms_of_conda_list_are_read(text: bytes) -> None:
    assert read_packages(text, "list.txt").versions == {"deepspeed": "0.16.8", "torch": "2.6.0"}


def test_the_block_of_transformers_is_read() -> None:
    assert read_packages(ENVIRONMENT, "-").versions == {
        "transformers": "4.50.3",
        "huggingface-hub": "0.30.1",
        "accelerate": "1.6.0",
        "torch": "2.6.0",
    }


def test_a_requirements_file_is_read_as_it_is() -> None:
    assert read_packages(b"transformers==4.50.3\ntorch>=2\n", "r.txt").versions == {"transformers": "4.50.3"}


COLLECTED = b"""PyTorch version: 2.7.1+cu126
CUDA used to build PyTorch: 12.6

[pip3] torch==2.7.1+cu126
[pip3] triton==3.3.1
[conda] pytorch 2.7.1 py3.11_cuda12.6 pytorch
"""

REPORTED = b"""DeepSpeed general environment info:
torch install path ............... ["/opt/torch"]
torch version .................... 2.5.1+cu124
deepspeed info ................... 0.16.8, unknown, unknown
torch cuda version ............... 12.4
"""

EXPLICIT = b"@EXPLICIT\nhttps://conda.anaconda.org/pytorch/linux-64/pytorch-2.5.1-py3.11_cuda12.4_0.tar.bz2#0a\n"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (COLLECTED, {"torch": "2.7.1", "triton": "3.3.1"}),
        (REPORTED, {"torch": "2.5.1", "deepspeed": "0.16.8"}),
        (EXPLICIT, {"torch": "2.5.1"}),
    ],
)
def test_reports_of_an_environment_are_read(text: bytes, versions: dict[str, str]) -> None:
    found = read_packages(text, "env.txt")
    assert found.versions == versions
    assert found.cuda


@pytest.mark.parametrize(
    ("text", "file", "cuda"),
    [
        (b"torch==2.8.0+cu126\n", "r.txt", "torch 2.8.0+cu126"),
        (b"torch==2.8.0\nnvidia-cuda-runtime-cu12==12.6.77\n", "r.txt", "nvidia-cuda-runtime-cu12"),
        (b"dependencies:\n- pytorch=2.5.1\n- pytorch-cuda=12.4\n", "e.yml", "pytorch-cuda"),
        (b"dependencies:\n- pytorch=2.5.1=py3.11_cuda12.4_0\n", "e.yml", "pytorch=2.5.1=py3.11_cuda12.4_0"),
        (CONDA_EXPORT, "e.txt", "pytorch=2.6.0=py3.11_cuda12.4_cudnn9.1.0_0"),
        (ENVIRONMENT, "e.txt", "torch 2.6.0+cu124"),
        (b"- PyTorch version (accelerator?): 2.9.0 (CUDA)\n", "e.txt", "PyTorch version (accelerator?): 2.9.0 (CUDA)"),
        (b"- PyTorch version (GPU?): 2.9.0 (True)\n", "e.txt", "PyTorch version (GPU?): 2.9.0 (True)"),
        (b"- PyTorch version (GPU?): 2.9.0 (False)\n- Using GPU in script?: <fill in>\n", "e.txt", ""),
        (b"- PyTorch version: 2.8.0\n- GPU type: NVIDIA A100-SXM4-80GB\n", "e.txt", "GPU type: NVIDIA A100-SXM4-80GB"),
        (b"torch==2.8.0+cpu\n", "r.txt", ""),
        (b"torch==2.8.0\n", "r.txt", ""),
        (b"dependencies:\n- pytorch=2.5.1=cpu_py311\n", "e.yml", ""),
    ],
)
def test_an_environment_for_gpus_says_so(text: bytes, file: str, cuda: str) -> None:
    assert read_packages(text, file).cuda == cuda
