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
