"""The kit for a first GPU, as far as it goes without one: nothing is lost when time runs out, and a trace is replayed."""

from __future__ import annotations

import importlib.util
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

MIB = 1 << 20


@pytest.fixture(scope="module")
def kit() -> Any:
    found = importlib.util.spec_from_file_location("kit", ROOT / "tests" / "gpu_kit" / "kit.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def event(action: str, addr: int, size: int, stream: int = 0) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": stream}


def test_a_trace_goes_through_the_allocators_model(kit: Any) -> None:
    events = [
        event("alloc", 1, 30 * MIB),
        event("segment_alloc", 1, 30 * MIB),
        event("free_completed", 99, MIB),
        event("alloc", 2, 30 * MIB, stream=7),
        event("free_completed", 1, 30 * MIB),
        event("alloc", 3, 20 * MIB),
    ]
    trace = {"events": events, "reserved_peak_bytes": 60 * MIB, "allocated_peak_bytes": 60 * MIB}
    assert kit.replayed(trace) == (
        "3 allocations, 1 frees of others; reserved 62,914,560 by the model, 62,914,560 on CUDA; "
        "allocated 62,914,560, 62,914,560 on CUDA"
    )


def test_what_there_is_no_time_for_is_said_and_what_there_was_is_kept(
    kit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "look.json").write_text("{}")
    kit._bundle(out)
    assert kit.run(out, 5.0, "cpu", ["0.16.4"], [0]) == 1
    assert "no time left for cell sim 0.16.4 0" in capsys.readouterr().out
    with tarfile.open(out / "raw.tar.gz") as archive:
        assert archive.getnames() == ["look.json"]


def test_cuda_stands_beside_sim(kit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device, peak in (("cuda", 110), ("sim", 100)):
        phases = {"forward": {**dict.fromkeys(kit._FIGURES, 1), "device_peak_bytes": peak}}
        record = {"outcome": "passed", "signature": "", "ranks": [{"phases": phases}]}
        (tmp_path / f"cell-{device}-0.16.4-1.json").write_text(json.dumps({"record": record}))
    kit.compare(tmp_path)
    said = capsys.readouterr().out
    assert "cell-cuda-0.16.4-1: passed" in said
    assert "+10.00%" in said
