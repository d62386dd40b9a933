"""Exit codes of ``nox -s accuracy``: a job that was not simulated to its end is neither a hit nor an excused miss. And where
it stores what it simulates."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.config.settings import Settings
from dsregress.model import Failed, Outcome, Passed
from dsregress.store import Store
from dsregress.store.publishing import publish
from tests.accuracy import simulated
from tests.accuracy.__main__ import main
from tests.accuracy.points import PointAnswer, PredictedFigure, read_points
from tests.builders.synthetic import stored_result

GIB = 1 << 30
(POINT,) = read_points(["mlp-fp32"])
FAILED = Failed("init", "ValueError: no")


def answer(predicted: int | None, outcome: Outcome, explained: str = "") -> PointAnswer:
    figure = PredictedFigure(
        point="p", at="end", step=2, quantity="peak", measured_bytes=GIB, rounding_bytes=1.0, predicted_bytes=predicted,
        explained=explained,
    )  # fmt: skip
    return PointAnswer(point=POINT, cell="c", torch="2.13.0", outcome=outcome, figures=(figure,))


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (answer(GIB, Passed()), 0),
        (answer(2 * GIB, Passed(), explained="another rank"), 0),
        (answer(2 * GIB, Passed()), 1),
        (answer(None, Passed(), explained="another rank"), 3),
        (answer(None, FAILED, explained="another rank"), 3),
        (answer(GIB, FAILED), 3),
    ],
)
def test_the_exit_code_beside_a_point_that_is_predicted(
    second: PointAnswer, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulated, "simulate_points", lambda *_, **__: [answer(GIB, Passed()), second])
    assert exit_code() == code
    assert ("not simulated to the end: mlp-fp32" in capsys.readouterr().err) is (code == 3)


def test_no_prediction_at_all_is_nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "simulate_points", lambda *_, **__: [answer(None, FAILED)])
    assert exit_code() == 4


@pytest.mark.parametrize("options", [[], ["--fresh"]])
def test_what_is_simulated_beside_a_bundle_is_stored_in_the_configured_folder(
    options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bundle is only read, also where none of its results counts."""
    stored = Store(str(tmp_path / "stored"))
    stored.write(stored_result(), benchmark={})
    bundle = tmp_path / "some.jsonl.gz"
    publish(stored.folder, str(bundle))
    folders: list[str] = []

    def answers(chosen: object, settings: Settings, *_: object, **__: object) -> list[PointAnswer]:
        folders.append(settings.results)
        return [answer(GIB, Passed())]

    monkeypatch.setattr(simulated, "simulate_points", answers)
    monkeypatch.setenv("DSREGRESS_RESULTS", str(tmp_path / "configured"))
    assert exit_code(*options, "--results", str(bundle)) == 0
    assert folders == [str(tmp_path / "configured")]


def exit_code(*options: str) -> int:
    return main(options)
