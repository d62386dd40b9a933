"""What a model of a workload puts out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dsregress.probe import scenario  # noqa: E402
from dsregress.probe.workloads import objectives, workload  # noqa: E402
from dsregress.probe.workloads.workload import Workload  # noqa: E402
from skeletons.weights import weight  # noqa: E402
from tests.paths import ROOT  # noqa: E402

SHAPE = scenario.load_shapes(ROOT / "scenarios")["llama-tiny"]


def built(outputs: str) -> tuple[Workload, torch.nn.Module]:
    work = Workload(dtype="fp32", model_outputs=outputs)
    model = workload.build_model(work, workload.model_configuration(work, SHAPE), torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name, tuple(parameter.shape)))
    return work, model


def loss_of(outputs: str) -> float:
    work, model = built(outputs)
    data = objectives.token_ids(work, SHAPE["vocab_size"], 0, 0, 0)
    return float(objectives.next_token(model, data).detach())


def test_a_model_of_one_output_returns_the_loss_of_one_of_several() -> None:
    work, model = built("loss")
    ids = workload.batch(work, SHAPE["vocab_size"], 0, 0, 0)
    assert isinstance(model(input_ids=ids, labels=ids), torch.Tensor)
    assert loss_of("loss") == loss_of("all")


def test_outputs_that_there_are_not_are_refused() -> None:
    with pytest.raises(ValueError, match="no such model_outputs: logits"):
        built("logits")
