"""``reproduce`` refuses what is no name for a script before anything is measured."""

from __future__ import annotations

import pytest

from harness import cli


@pytest.mark.parametrize("output", ["-", "new/..", "-c.py"])
def test_a_script_needs_a_name_that_torchrun_can_run(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "0.18.3/llama_zero3_backward/base/cpu", "--output", output])
    assert caught.value.code == 2
    assert f"error: --output: no name for a script: {output}; name a file" in capsys.readouterr().err


def test_another_package_needs_a_release_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "4.48.3/trainer_zero3/base/cpu", "--package", "transformers"])
    assert caught.value.code == 2
    assert "error: --against: no release of transformers to compare with; name one" in capsys.readouterr().err
