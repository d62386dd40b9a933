"""What this machine is, as far as a comparison must know. Nothing here imports torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from harness.model import Hardware


def has_gpu() -> bool:
    """Whether an NVIDIA driver is loaded (``/proc``), or visible through nvidia-smi (WSL, some containers)."""
    return Path("/proc/driver/nvidia/version").exists() or bool(_nvidia_smi("name"))


def detect() -> Hardware:
    """CPU model, the cores that this process may use, physical memory, GPUs and their driver."""
    gpus = _nvidia_smi("name")
    drivers = _nvidia_smi("driver_version") if gpus else ()
    return Hardware(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=gpus,
        gpu_driver=drivers[0] if drivers else "",
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return os.uname().machine  # Arm kernels name no model


def _nvidia_smi(field: str) -> tuple[str, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()
