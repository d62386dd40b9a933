"""What the machine says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.config import variables
from dsregress.envs import hardware


def program(folder: Path, text: str) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_this_machine_has_a_name_cores_and_memory() -> None:
    found = hardware.detect()
    assert found.cpu
    assert found.cores >= 1
    assert found.memory_bytes > 1 << 28


def test_gpus_and_their_driver_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, 'case "$1" in *name*) echo "NVIDIA A800\nNVIDIA A800";; *) echo 550.1;; esac')
    assert hardware.detect().gpus == ("NVIDIA A800", "NVIDIA A800")
    assert hardware.detect().gpu_driver == "550.1"
    assert hardware.has_gpu()


def test_a_tool_without_a_driver_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "echo has failed because it could not communicate with the driver; exit 9")
    assert hardware.detect().gpus == ()


def test_a_processor_with_limited_instructions_is_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables.INSTRUCTION_SETS:
        monkeypatch.delenv(name, raising=False)
    unlimited = hardware.detect().cpu
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert hardware.detect().cpu == f"{unlimited} (ATEN_CPU_CAPABILITY=avx2, ONEDNN_MAX_CPU_ISA=AVX2)"
