"""The simulation of real releases, beside what others have measured on GPUs: the points that take seconds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests import ending
from tests.functional.releases import ENVIRONMENTS, LIMIT_S
from tests.paths import ROOT

FAST = ("gpt2_zero-1", "gpt2_zero-3", "gpt2_zero-3-offloaded", "bf16_master_weight-254m-1", "bf16_master_weight-254m-4")


def test_every_figure_of_the_fast_points_meets_the_goal(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "accuracy.json"
    done = ending.run(
        [
            *(sys.executable, "-m", "tests.accuracy", "--json", str(file)),
            *(word for name in FAST for word in ("--point", name)),
        ],
        cwd=ROOT,
        env={**os.environ, "DSREGRESS_RESULTS": str(results), "DSREGRESS_ENVIRONMENTS": ENVIRONMENTS},
        limit_s=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    points = json.loads(file.read_bytes())["points"]
    assert {point["name"] for point in points} == set(FAST)
    assert all(figure["is_within"] for point in points for figure in point["figures"])
