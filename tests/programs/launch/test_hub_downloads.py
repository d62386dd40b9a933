"""What `torch.hub` would download is named with the folder in which it is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = """
import torch

{load}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""
OF_A_REPOSITORY = "model = torch.hub.load('owner/net', 'small', trust_repo=True)"
UNTRUSTED = "model = torch.hub.load('owner/net', 'small')"
OF_A_URL = (
    "model = torch.nn.Linear(4, 2)\n"
    "weights = torch.hub.load_state_dict_from_url('https://example.org/a/net-1.pth')\n"
    "model.weight.data.add_(weights['layer.weight'].mean())"
)


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (
            OF_A_REPOSITORY,
            "train.py:4: github.com/owner/net is not here: clone it into hub/owner_net_main of a folder DIR",
        ),
        (UNTRUSTED, "train.py:4: github.com/owner/net is not here: clone it into hub/owner_net_main of a folder DIR"),
        (OF_A_URL, "train.py:6: net-1.pth is not here: put it into hub/checkpoints of a folder DIR"),
    ],
)
def test_it_is_named_with_its_place(folder: Path, load: str, says: str) -> None:
    (folder / "train.py").write_text(TRAIN.format(load=load))
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == f"CannotRun: {says}, and write TORCH_HOME=DIR before the line"


def test_a_program_that_lists_the_models_of_a_repository_trains_its_own(folder: Path) -> None:
    load = "assert 'x' not in torch.hub.list('owner/net:main')\nmodel = torch.nn.Linear(4, 2)"
    (folder / "train.py").write_text(TRAIN.format(load=load))
    passed(ran(folder, "sim", 1, "python train.py"))


def test_it_is_found_there(folder: Path) -> None:
    repository = folder.parent / "home" / "hub" / "owner_net_main"
    repository.mkdir(parents=True)
    (repository / "hubconf.py").write_text("import torch\ndef small():\n    return torch.nn.Linear(4, 2)\n")
    (folder / "train.py").write_text(TRAIN.format(load=OF_A_REPOSITORY))
    passed(ran(folder, "sim", 1, f"TORCH_HOME={folder.parent / 'home'} python train.py"))


@pytest.mark.parametrize(
    "load",
    [
        "model.load_state_dict(weights)",
        "model.load_state_dict(weights['model'], strict=False)",
        "del weights['fc.weight']; weights.pop('fc.bias'); model.load_state_dict({key: weights[key] for key in weights})",
    ],
)
def test_a_model_keeps_its_initial_weights_in_place_of_those_at_a_url(folder: Path, load: str) -> None:
    first = (
        "model = torch.nn.Linear(4, 2)\nweights = torch.hub.load_state_dict_from_url('https://example.org/a/net-1.pth')"
    )
    (folder / "train.py").write_text(TRAIN.format(load=f"{first}\n{load}"))
    passed(ran(folder, "sim", 1, "python train.py"))


def test_a_state_dict_without_tensors_fails_unless_weights_were_asked_for(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.format(load="model = torch.nn.Linear(4, 2)\nmodel.load_state_dict({})"))
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature.startswith("RuntimeError: Error(s) in loading state_dict for Linear")
