"""Measuring versions: their history, and the results of before there were any."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest

from dsregress.model import Result
from dsregress.probe.adapters import ADAPTERS, FORMER_PATHS
from dsregress.probe.border.wire import Explanation
from dsregress.probe.scenario import DEVICES
from dsregress.store import Explanations, Store, content_key, encode, explained_in, key_of, measuring_versions, schema
from dsregress.store.bundle_file import SUFFIX
from tests.builders.synthetic import stored_result as result
from tests.paths import ROOT

#: A probe whose `cpu` figures are those of a version, and one whose figures are not known to be any other's.
CARRIED_OVER = next(probe for probe in measuring_versions.former_probes() if probe.cpu == "1")
NOT_CARRIED_OVER = next(probe for probe in measuring_versions.former_probes() if not probe.cpu)


def former(probe: str, **changes: object) -> bytes:
    """A result's file as it was written before there were measuring versions."""
    made = json.loads(encode(msgspec.structs.replace(result(probe_sha256=probe), **changes)))
    del made["measuring_version"], made["sha256"]
    made["schema"] = 1
    paths = {adapter: path for path, adapter in FORMER_PATHS.items()}
    made["cell"]["framework"] = paths[made["cell"]["framework"]]
    return json.dumps(made).encode()


def test_each_device_mode_has_a_history_that_says_why() -> None:
    history = measuring_versions.version_history()
    assert set(history) == set(DEVICES)
    for device, entries in history.items():
        assert [entry.version for entry in entries] == list(range(1, len(entries) + 1)), device
        assert all(entry.reason and re.fullmatch(r"20\d\d-\d\d-\d\d", entry.date) for entry in entries), device
        assert all(adapter in ADAPTERS for entry in entries for adapter in entry.unmoved_adapters), device
        assert measuring_versions.measuring_version(device, "an.adapter.of_a_user") == str(len(entries))


def test_a_version_stays_for_an_adapter_whose_figures_did_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (
        measuring_versions.MeasuringVersion(version=version, date="2026-01-01", reason="", unmoved_adapters=unmoved)
        for version, unmoved in ((1, ()), (2, ("program",)))
    )
    monkeypatch.setattr(measuring_versions, "_current", lambda: {"sim": (first, second)})
    versions = {adapter: measuring_versions.measuring_version("sim", adapter) for adapter in ("deepspeed", "program")}
    assert versions == {"deepspeed": "2", "program": "1"}


def test_a_former_probe_is_listed_once_and_stands_for_what_there_is() -> None:
    probes = measuring_versions.former_probes()
    names = [probe.sha256 for probe in probes]
    assert len(set(names)) == len(names)
    known = {
        device: {str(entry.version) for entry in found}
        for device, found in measuring_versions.version_history().items()
    }
    shorts = {name[:8] for name in names}
    for probe in probes:
        for device in DEVICES:
            version = getattr(probe, device)
            assert not version or version in known[device] | (shorts - {probe.sha256[:8]})
            assert not version or probe.evidence, probe.sha256


@pytest.mark.slow
def test_the_probe_of_every_published_result_is_listed() -> None:
    listed = {probe.sha256 for probe in measuring_versions.former_probes()}
    for bundle in sorted((ROOT / "results").glob(f"*{SUFFIX}")):
        for line in gzip.decompress(bundle.read_bytes()).splitlines()[1:]:
            if line.startswith(b'{"kind":"result"') and b'"measuring_version"' not in line:
                found = json.loads(line)["content"]["probe_sha256"]
                assert found in listed, f"{bundle.name}: {found}"


def test_a_result_of_before_has_the_version_that_its_probe_is_known_to_be() -> None:
    assert schema.decode(former(CARRIED_OVER.sha256)).measuring_version == "1"


def test_a_probe_that_is_not_known_to_measure_the_same_is_a_version_of_its_own() -> None:
    assert schema.decode(former(NOT_CARRIED_OVER.sha256)).measuring_version == NOT_CARRIED_OVER.sha256[:8]
    assert schema.decode(former("f" * 64)).measuring_version == "ffffffff"


def test_a_result_of_today_keeps_its_version_whatever_its_probe() -> None:
    one = result(probe_sha256=CARRIED_OVER.sha256, measuring_version="7")
    assert schema.decode(encode(one)).measuring_version == "7"


def test_a_result_of_before_names_its_adapter_by_the_id() -> None:
    assert schema.decode(former("x")).cell.framework == "deepspeed"


def test_what_was_measured_before_is_reused(tmp_path: Path) -> None:
    """Its file is called by another key: that of its probe and its module path."""
    keep(tmp_path, former(CARRIED_OVER.sha256))
    keep(tmp_path, former(NOT_CARRIED_OVER.sha256))
    wanted = result()
    (found,) = Store(str(tmp_path)).of_cell(wanted.cell, key_of(wanted)).results
    assert found.probe_sha256 == CARRIED_OVER.sha256


def keep(folder: Path, data: bytes) -> Result:
    found = schema.decode(data)
    cell, key = found.cell, schema.former_key_of(found)
    file = folder / cell.stack.id / cell.scenario / f"{cell.variant}-{cell.device}-{key[:12]}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return found


def test_an_explanation_of_before_is_found(tmp_path: Path) -> None:
    found = keep(tmp_path, former(CARRIED_OVER.sha256))
    Explanations(str(tmp_path)).write(schema.former_key_of(found), found.cell.id, Explanation(note="of before"))
    explained = explained_in([str(tmp_path)])
    assert explained(found) == Explanation(note="of before")
    assert explained(msgspec.structs.replace(found, code_sha256="another")) is None


def test_the_former_key_is_the_one_that_published_files_are_called_by() -> None:
    bundle = ROOT / "results" / f"2026-11-24-open-reasoner-zero{SUFFIX}"
    store = Store(str(bundle))
    names = {Path(file).name.split("-")[-1] for file in store.files()}
    assert {f"{schema.former_key_of(found)[:12]}.json" for found in store.load().results} == names


def test_the_version_is_part_of_the_key_and_the_probe_is_not() -> None:
    one = result()
    assert key_of(result(probe_sha256="another")) == key_of(one)
    assert key_of(result(measuring_version="2")) != key_of(one)


def test_raising_one_device_mode_leaves_the_keys_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys_of_today()
    history = measuring_versions.version_history()
    raised = msgspec.structs.replace(history["cpu"][-1], version=len(history["cpu"]) + 1)
    monkeypatch.setattr(measuring_versions, "_current", lambda: {**history, "cpu": (*history["cpu"], raised)})
    after = keys_of_today()
    assert [device for device in DEVICES if before[device] != after[device]] == ["cpu"]


def keys_of_today() -> dict[str, str]:
    one = result()
    return {
        device: content_key(
            msgspec.structs.replace(one.cell, device=device),
            lock_sha256="l",
            code_sha256="c",
            measuring_version=measuring_versions.measuring_version(device, one.cell.framework),
            hardware=one.hardware,
        )
        for device in DEVICES
    }
