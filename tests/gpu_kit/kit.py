"""The first minutes on a real GPU: what to carry, what to run there, and what it says. See README.md beside this file.

python tests/gpu_kit/kit.py pack  here: everything that the machine needs, in .gpu-kit (64 MiB at most)
python3 tests/gpu_kit/kit.py run --out $OUT [--limit 470]  there: cells and measurements, raw files in $OUT as they come
python tests/gpu_kit/kit.py compare FOLDER  here again: cuda beside sim, the allocator's model beside its trace

Standard library, the probe and, where cells run, torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tarfile
import time
import types
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "harness"
sys.path[:0] = [str(SOURCE), str(ROOT)]

KIT = ROOT / ".gpu-kit"
MOST_BYTES = 64 << 20

#: DeepSpeed before the fault, with it, after it, and the newest.
RELEASES = ("0.15.0", "0.16.4", "0.16.8", "0.19.8")

#: What is carried beside DeepSpeed: the releases that cells here are measured with, and what a bare image may lack.
CARRIED = (
    "transformers==4.57.6", "tokenizers==0.22.2", "huggingface-hub==0.36.2", "accelerate==1.15.0", "peft==0.21.2", "hjson",
    "py-cpuinfo", "msgpack", "einops", "nvidia-ml-py", "pytest", "pluggy", "iniconfig",
)  # fmt: skip

#: scenario, variant, parameters that make it small enough for a processor
CELLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "llama_zero3_backward",
        "base",
        {"model": "llama-tiny", "sequence_length": 64, "micro_batch_size": 2, "world_size": 2},
    ),
    ("llama_zero3_backward", "base", {}),
    ("llama_zero3_backward", "gradient_checkpointing=non_reentrant", {}),
    ("llama_zero3_backward", "gradient_checkpointing=reentrant", {}),
)

#: The longest that one cell may take, seconds.
_CELL_S = 150

_ROUNDS = 5


# -- here: packing ---------------------------------------------------------------------------------------------------------


def pack(python_version: str) -> int:
    """Copies each DeepSpeed, which is pure Python, from the environment that the harness builds for it, and downloads wheels
    of the rest for the machine's Python."""
    KIT.mkdir(exist_ok=True)
    wheels = KIT / "wheels"
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 27, 28)] + ["manylinux2014_x86_64"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
            *("--python-version", python_version, "--implementation", "cp"),
            *(f"--platform={platform}" for platform in platforms),
            *("-d", str(wheels), *CARRIED),
        ],
        check=True,
    )
    for release in RELEASES:
        asked = subprocess.run(
            [sys.executable, "-m", "dsregress", "env", release], cwd=ROOT, capture_output=True, text=True, check=True
        )
        packages = next((Path(asked.stdout.strip()).parent.parent / "lib").glob("python3*/site-packages"))
        with zipfile.ZipFile(KIT / f"deepspeed-{release}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for folder in (packages / "deepspeed", *packages.glob("deepspeed-*.dist-info")):
                for file in sorted(folder.rglob("*")):
                    if file.is_file() and file.suffix not in (".pyc", ".cu", ".cuh", ".cpp", ".h"):
                        archive.write(file, file.relative_to(packages))
    nbytes = sum(file.stat().st_size for file in KIT.rglob("*") if file.is_file())
    print(f"{KIT}: {nbytes / (1 << 20):.1f} MiB")
    return int(nbytes > MOST_BYTES)


# -- there: running --------------------------------------------------------------------------------------------------------


def run(out: Path, limit_s: float, device: str, releases: Sequence[str], cells: Sequence[int]) -> int:
    """Runs everything that there is time for, what matters most first. Each part is a process of its own, and its file is
    there when it ends, so that nothing is lost with the machine."""
    end = time.monotonic() + limit_s
    out.mkdir(parents=True, exist_ok=True)
    parts = [["look"], ["constants", device], ["trace", device]]
    parts += [["cell", on, release, str(at)] for at in cells for release in releases for on in (device, "sim")]
    failed = 0
    for part in parts:
        left = end - time.monotonic()
        if left < 10:
            print(f"no time left for {' '.join(part)}", flush=True)
            failed += 1
            continue
        began = time.monotonic()
        name = "-".join(part)
        with open(out / f"{name}.log", "w") as log:
            try:
                done = subprocess.run(
                    [sys.executable, __file__, "part", *part, "--out", str(out / f"{name}.json")],
                    stdout=log, stderr=log, timeout=min(left, _CELL_S), env=_variables(part), check=False,
                )  # fmt: skip
                code: int | str = done.returncode
            except subprocess.TimeoutExpired:
                code = "too long"
        failed += code != 0
        print(f"{name}: {code}, {time.monotonic() - began:.0f} s", flush=True)
        _bundle(out)
    return int(failed > 0)


def _variables(part: Sequence[str]) -> dict[str, str]:
    """Carried packages before those of the machine; DeepSpeed alone where a cell runs."""
    paths = [str(SOURCE), str(ROOT)]
    if (wheels := KIT / "wheels").exists():
        paths.append(str(_unpacked(wheels)))
    if part[0] == "cell" and (archive := KIT / f"deepspeed-{part[2]}.zip").exists():
        folder = archive.with_suffix("")
        if not folder.exists():
            zipfile.ZipFile(archive).extractall(folder)
        paths.append(str(folder))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _unpacked(wheels: Path) -> Path:
    folder = wheels.with_name("site")
    if not folder.exists():
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(folder)
    return folder


def _bundle(out: Path) -> None:
    """Everything so far as one file, as a lease may return few."""
    with tarfile.open(out / "raw.part", "w:gz") as archive:
        for file in sorted(out.iterdir()):
            if file.suffix in (".json", ".log"):
                archive.add(file, file.name)
    (out / "raw.part").replace(out / "raw.tar.gz")


# -- there: the parts ------------------------------------------------------------------------------------------------------


def look() -> dict[str, Any]:
    """What the machine is."""
    commands = (
        ["nvidia-smi", "-q"],
        ["nvidia-smi", "topo", "-m"],
        [sys.executable, "-m", "pip", "list"],
        ["uname", "-a"],
    )
    return {" ".join(command): _said_by(command) for command in commands}


def _said_by(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except OSError as error:
        return str(error)


def constants(device: str) -> dict[str, Any]:
    """What `dsregress.advice.gpus` assumes: matrix products, a copy, cuBLAS's workspace, and memory outside of PyTorch."""
    import torch

    found: dict[str, Any] = {"torch": torch.__version__, "device": device}
    sizes, size = ((1 << 12, 1 << 13), 1 << 28) if device == "cuda" else ((1 << 8,), 1 << 20)
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"name": properties.name, "total_bytes": properties.total_memory}
        before = torch.cuda.memory_allocated()
        one = torch.ones(64, 64, device=device, dtype=torch.bfloat16)
        held = torch.cuda.memory_allocated()
        product = one @ one
        found["workspace_bytes"] = torch.cuda.memory_allocated() - held - product.untyped_storage().nbytes()
        found["allocated_before_bytes"] = before
    for side in sizes:
        left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
        found[f"matmul_{side}_flops_per_s"] = 2 * side**3 / _seconds(lambda: left @ right, device)  # noqa: B023
    source, target = (torch.empty(size, device=device, dtype=torch.bfloat16) for _ in range(2))
    found["copy_bytes_per_s"] = 4 * size / _seconds(lambda: target.copy_(source), device)
    host = torch.empty(size, dtype=torch.bfloat16, pin_memory=device == "cuda")
    found["from_host_bytes_per_s"] = 2 * size / _seconds(lambda: target.copy_(host, non_blocking=True), device)
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        found["outside_pytorch_bytes"] = total - free - torch.cuda.memory_reserved()
    return found


def _seconds(work: Callable[[], Any], device: str, repeats: int = 20) -> float:
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        work()
    wait()
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return (time.perf_counter() - began) / repeats


def trace(device: str) -> dict[str, Any]:
    """All that the caching allocator did in three steps of a transformer with copies on a stream of their own, and what
    it had reserved in the end."""
    import torch
    from torch import nn

    width, length = (1024, 2048) if device == "cuda" else (64, 32)
    if device == "cuda":
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python", context=None)
    layers = [nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, device=device) for _ in range(6)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    side = torch.cuda.Stream() if device == "cuda" else None
    for step in range(3):
        inputs = torch.randn(4, length + 128 * step, width, device=device)
        model(inputs).square().mean().backward()
        if side is not None:
            with torch.cuda.stream(side):
                side.wait_stream(torch.cuda.default_stream())
                copies = [p.grad.float() + 1 for p in model.parameters()]
            for p in model.parameters():
                p.grad.record_stream(side)
            del copies
        optimizer.step()
        optimizer.zero_grad()
    if device != "cuda":
        return {"events": [], "segments": [], "note": "no caching allocator on a processor"}
    torch.cuda.synchronize()
    taken = torch.cuda.memory._snapshot()
    kept = ("action", "addr", "size", "stream")
    of_segment = ("stream", "total_size", "allocated_size", "segment_type")
    return {
        "events": [{name: event[name] for name in kept} for event in taken["device_traces"][0]],
        "segments": [{name: segment[name] for name in of_segment} for segment in taken["segments"]],
        "reserved_peak_bytes": torch.cuda.max_memory_reserved(),
        "allocated_peak_bytes": torch.cuda.max_memory_allocated(),
    }


def cell(device: str, release: str, at: int, folder: Path) -> dict[str, Any]:
    """One cell by the probe itself, with the phases' times where the device has them."""
    import importlib

    from dsregress.probe.border.surroundings import ENVIRONMENT
    from dsregress.probe.border.wire import CellRequest
    from dsregress.probe.process.cell import OpenGate, execute_cell
    from dsregress.probe.scenario import load
    from vgpu.replacing import working_folder

    scenario, variant, changes = CELLS[at]
    declared = load(ROOT / "scenarios" / f"{scenario}.py")
    os.environ.update(ENVIRONMENT)
    rounds = 0 if device == "sim" else _ROUNDS
    request = CellRequest(
        scenario=scenario,
        variant=variant,
        device=device,
        parameters=declared.resolve(variant, device, changes),
        framework=declared.framework,
        warmup_rounds=1 if rounds else 0,
        rounds=rounds,
        timeout_s=float(_CELL_S),
    )
    importlib.import_module(declared.framework).preload(device)
    folder.mkdir(parents=True, exist_ok=True)
    with working_folder(folder):
        record = execute_cell(request, folder, Rounds(), OpenGate())
    return {"release": release, "request": dataclasses.asdict(request), "record": dataclasses.asdict(record)}


class Rounds:
    """What a cell needs of pytest-benchmark, without it."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}
        self.has_error = False

    def pedantic(self, target: Callable[[], Any], setup: Callable[[], Any], rounds: int, warmup_rounds: int) -> None:
        for _ in range(rounds + warmup_rounds):
            setup()
            target()


# -- here again: comparing -------------------------------------------------------------------------------------------------


def compare(folder: Path) -> int:
    """Prints cuda beside sim, and replays the trace through the allocator's model."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    for name, constant in found.get("constants-cuda", found.get("constants-cpu", {})).items():
        print(f"{name:32} {constant}")
    for name, mine in found.items():
        if name.startswith("cell-") and not name.startswith("cell-sim"):
            _, _, release, at = name.split("-", 3)
            print(f"\n{name}: {mine['record']['outcome']} {mine['record']['signature']}")
            for line in _phases(mine, found.get(f"cell-sim-{release}-{at}")):
                print(line)
    for name in ("trace-cuda", "trace-cpu"):
        if name in found:
            print(f"\n{name}: {replayed(found[name])}")
    return 0


_FIGURES = ("device_peak_bytes", "device_retained_bytes", "reserved_peak_bytes", "op_launches", "flops", "seconds")


def _phases(mine: dict[str, Any], simulated: dict[str, Any] | None) -> Iterator[str]:
    theirs = simulated["record"]["ranks"][0]["phases"] if simulated and simulated["record"]["ranks"] else {}
    for rank in mine["record"]["ranks"][:1]:
        for phase, reading in rank["phases"].items():
            for figure in _FIGURES:
                value, other = reading[figure], theirs.get(phase, {}).get(figure)
                off = f"{value / other - 1:+.2%}" if value and other and figure != "seconds" else ""
                yield f"  {phase:9} {figure:22} {value!s:>18} sim {other!s:>18} {off}"


def replayed(trace: dict[str, Any]) -> str:
    """What the model reserves for the allocations and frees of a trace, beside what CUDA's allocator reserved."""
    from vgpu.allocator.model import CachingAllocator
    from vgpu.meters.ledger import STREAM_SELECTED, note

    model, live, stream, number, skipped = CachingAllocator(), {}, 0, 0, 0
    for event in trace["events"]:
        if event["action"] == "alloc":
            if event["stream"] != stream:
                stream = event["stream"]
                model.book(note(STREAM_SELECTED, stream), 0)
            number += 1
            live[event["addr"]] = (number, event["size"])
            model.book(number, event["size"])
        elif event["action"] == "free_completed":
            if event["addr"] in live:
                key, nbytes = live.pop(event["addr"])
                model.book(key, -nbytes)
            else:
                skipped += 1  # allocated before the history began
    if not number:
        return str(trace.get("note", "no events"))
    usage = model.usage()
    return (
        f"{number:,} allocations, {skipped} frees of others; reserved {usage.reserved_peak_bytes:,} by the model, "
        f"{trace['reserved_peak_bytes']:,} on CUDA; allocated {usage.allocated_peak_bytes:,}, "
        f"{trace['allocated_peak_bytes']:,} on CUDA"
    )


# -- the command -----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("--python-version", default="3.12", help="of the machine")
    running = commands.add_parser("run")
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--limit", type=float, default=470.0, help="seconds")
    running.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal, on tiny models")
    running.add_argument("--release", action="append", help="of DeepSpeed; all that are carried without")
    running.add_argument("--cell", action="append", type=int, help=f"0 to {len(CELLS) - 1}; all without")
    one = commands.add_parser("part")
    one.add_argument("words", nargs="+")
    one.add_argument("--out", type=Path, required=True)
    comparing = commands.add_parser("compare")
    comparing.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "pack":
        return pack(given.python_version)
    if given.command == "compare":
        return compare(given.folder)
    if given.command == "run":
        cells = given.cell or (range(len(CELLS)) if given.device == "cuda" else [0])
        return run(given.out, given.limit, given.device, given.release or RELEASES, cells)
    name, *words = given.words
    parts = types.SimpleNamespace(
        look=look,
        constants=constants,
        trace=trace,
        cell=lambda device, release, at: cell(device, release, int(at), given.out.with_suffix("")),
    )
    found = getattr(parts, name)(*words)
    given.out.write_text(json.dumps(found, default=str))
    return int(name == "cell" and found["record"]["outcome"] != "passed")


if __name__ == "__main__":
    sys.exit(main())
