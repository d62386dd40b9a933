# pip install openrlhf==0.8.5 && pip install --no-deps vllm==0.10.0  # shows the fault: exit code 1
# pip install openrlhf==0.8.5 && pip install --no-deps vllm==0.9.2  # does not: exit code 0
# python openrlhf_vllm_version.py
#
# OpenRLHF's function that makes its engines of vLLM, asked for none: does it take the vLLM that is installed?
import inspect
import sys
from importlib.metadata import version

from openrlhf.trainer.ray.vllm_engine import create_vllm_engines

wanted = {one.name: 0 for one in inspect.signature(create_vllm_engines).parameters.values() if one.default is one.empty}
releases = f"openrlhf {version('openrlhf')} beside vllm {version('vllm')}"
try:
    create_vllm_engines(**wanted | {"num_engines": 0, "tensor_parallel_size": 1, "shared_pg": object()})
except AssertionError as error:
    print(f"{releases}: AssertionError: {error}")
    sys.exit(1)
print(f"{releases}: takes it")
