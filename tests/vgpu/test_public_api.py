"""The public names of the package, and a script on the virtual card by way of them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

import vgpu
from tests.paths import SOURCE

MIB = 1 << 20

#: Every tensor is of 4 MiB, for which the allocator cuts up segments of 20 MiB.
TRAIN = """
import torch
model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.ones(1024, 1024, device="cuda")
for step in range(5):
    y = model(x)
    y.backward(torch.ones_like(y))
    optimizer.step()
    optimizer.zero_grad()
    print("step", step)
    del y
"""

SCRIPT = """
import dataclasses, json, runpy, sys, torch, vgpu

@vgpu.register("my_kernels._C.scale")
def scale(x, factor):
    out = torch.empty_like(x)
    with vgpu.kernel(out):
        pass
    return out

@vgpu.register("json.dumps_on_card")
def dumps_on_card(x):
    return "registered"

found = {}
with vgpu.attach(card="H100-80G", steps=2) as gpu:
    runpy.run_path("train.py", run_name="__main__")
found["memory"] = dataclasses.asdict(gpu.memory)
found["steps"], found["unsupported"] = gpu.steps, gpu.unsupported
found["replay"] = max(usage.reserved_peak_bytes for usage in vgpu.replay(gpu.trace).phases.values())
found["world"] = [gpu.rank, gpu.world_size, torch.distributed.is_initialized()]

with vgpu.attach(rank=3, world_size=4) as gpu:
    import my_kernels._C
    x = torch.ones(3 << 20, device="cuda")
    before = gpu.memory.allocated_bytes
    scaled = my_kernels._C.scale(x, 2.0)
    found["registered"] = [str(scaled.device), gpu.memory.allocated_bytes - before, json.dumps_on_card(x)]
    try:
        my_kernels._C.other
    except vgpu.NoStandInError:
        pass
    found["loss"] = scaled.sum().item()
    found["current"] = gpu.memory.phases
found["missed"] = gpu.unsupported
found["gone"] = "my_kernels" not in sys.modules and not hasattr(json, "dumps_on_card")
with open("found.json", "w") as file:
    json.dump(found, file)
"""


def test_importing_the_package_imports_no_torch_and_its_names_are_found_when_used() -> None:
    code = "import sys, vgpu; vgpu.cards(); vgpu.replay; assert 'torch' not in sys.modules; print(sorted(vgpu.__all__))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout == f"{sorted(vgpu.__all__)}\n"
    assert set(vgpu.__all__) == set(vgpu._PUBLIC) <= set(dir(vgpu))
    with pytest.raises(AttributeError, match="^module 'vgpu' has no attribute 'attached'$"):
        _ = vgpu.attached


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_one_line_says_what_to_install() -> None:
    with pytest.raises(ModuleNotFoundError, match="^vgpu.attach needs torch: pip install torch$"):
        _ = vgpu.attach


def environment() -> dict[str, str]:
    """Only the package's own folder is on the path."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(SOURCE)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("empty")
    (folder / "train.py").write_text(TRAIN)
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step ") == 1  # the second step was the program's last line
    result: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return result


@pytest.mark.slow
def test_the_memory_by_phase_is_what_the_allocators_rules_give(found: dict[str, Any]) -> None:
    """Weight, input and momentum of 4 MiB, and two cuBLAS workspaces of 32, stay. The output and the gradient that is given
    to it come with the forward, the weight's gradient with the backward. Five blocks of 4 MiB share a segment of 20."""
    phases = found["memory"]["phases"]
    figures = {
        name: [
            phase[key] / MIB
            for key in ("allocated_peak_bytes", "allocated_bytes", "reserved_peak_bytes", "reserved_bytes")
        ]
        for name, phase in phases.items()
    }
    assert figures == {
        "init": [8, 8, 20, 20],
        "forward": [84, 84, 84, 84],
        "backward": [88, 84, 104, 104],
        "step": [84, 84, 104, 104],
    }
    assert found["memory"]["allocated_peak_bytes"] == 88 * MIB
    assert found["memory"]["reserved_peak_bytes"] == found["replay"] == 104 * MIB
    assert (found["steps"], found["world"]) == (2, [0, 1, False])
    assert found["unsupported"] == []


@pytest.mark.slow
def test_a_kernel_of_ones_own_is_registered(found: dict[str, Any]) -> None:
    assert found["registered"] == ["cuda:0", 12 * MIB, "registered"]
    assert found["gone"]


@pytest.mark.slow
def test_what_is_not_in_the_figures_is_said(found: dict[str, Any]) -> None:
    assert found["loss"] == 1.0
    assert found["missed"] == [
        "my_kernels._C.other has no stand-in: leave out what needs it, or run on cuda",
        "values: losses and norms are not computed; the program read 1 of them as 1.0",
    ]
