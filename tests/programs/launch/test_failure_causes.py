"""What a program lacks is told by the remedy that helps."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("torch")

from dsregress.programs.launch.failure_causes import LaunchedProgram, environment_failure
from dsregress.programs.world.local_sockets import NoNetworkError
from dsregress.programs.world.resource_errors import NotHere


class _Start:
    has_rank = True


class _Program:
    start = _Start()
    run_folder = Path("/nowhere")
    is_tiny = False


def _refuse() -> None:
    try:
        raise NoNetworkError("data.example.com")
    except NoNetworkError as error:
        raise NotHere("the data set CIFAR10 is not in data", "give --synthetic-data") from error


def test_a_data_set_that_a_download_would_have_is_told_by_its_own_remedy() -> None:
    with pytest.raises(NotHere) as raised:
        _refuse()
    program = cast(LaunchedProgram, _Program())
    assert environment_failure(raised.value, program, 0, 0) is raised.value
