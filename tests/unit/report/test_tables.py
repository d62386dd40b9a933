"""The tables of a report: what was measured, stack by stack."""

from __future__ import annotations

import msgspec

from dsregress.advice import gpus
from dsregress.compare.result_summary import summarize
from dsregress.report.tables import fit_text
from tests.builders import synthetic
from tests.builders.synthetic import result


def test_what_a_generation_engine_keeps_of_the_card_is_not_there_for_the_job() -> None:
    def verdict(share: float, needed_gib: int = 30) -> str:
        run = synthetic.record()
        for rank in run.ranks:
            rank.phases["backward"].device_peak_bytes = needed_gib << 30
        one = result(device="sim", run=run)
        cell = msgspec.structs.replace(one.cell, parameters={"gpu_memory_utilization": share})
        return fit_text(summarize(msgspec.structs.replace(one, cell=cell)), gpus.card("A100-80G"))

    assert (verdict(0.0), verdict(0.5), verdict(0.7)) == ("fits", "fits", "OUT OF MEMORY in backward")
    assert verdict(0.0, 78) == "too close to call"
