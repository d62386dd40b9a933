"""The engine that stands for DeepSpeed's in plain PyTorch, against loops written out by hand, on one gloo rank."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

import torch.distributed as dist  # noqa: E402

from dsregress.programs.truth import plain_settings  # noqa: E402
from dsregress.programs.truth.plain_engine import EngineStart, GivenToInitialize, HasNot, PlainEngine  # noqa: E402
from dsregress.programs.truth.plain_settings import LossScale, NoTruth  # noqa: E402

BATCHES = torch.randn(6, 4, 8, generator=torch.Generator().manual_seed(0))
ADAMW = {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}}


@pytest.fixture(autouse=True)
def one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/met", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def loss_of(net: Any, batch: Any) -> Any:
    return net(batch.to(next(net.parameters()).dtype)).float().pow(2).mean()


def engine(config: dict[str, Any], net: Any = None, start: EngineStart | None = None, **given: Any) -> PlainEngine:
    whole = {"train_micro_batch_size_per_gpu": 4, "optimizer": ADAMW, **config}
    return PlainEngine(net or model(), whole, GivenToInitialize(**given), start or EngineStart())


def test_it_trains_as_a_loop_does_that_clips_and_accumulates() -> None:
    plain, net = engine({"gradient_accumulation_steps": 2, "gradient_clipping": 0.1}), model()
    adamw = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1)
    for at, batch in enumerate(BATCHES):
        plain.backward(loss_of(plain, batch))
        plain.step()
        (loss_of(net, batch) / 2).backward()
        if at % 2:
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            adamw.step()
            adamw.zero_grad()
            assert plain.get_global_grad_norm() == pytest.approx(float(norm), rel=1e-5)
    assert plain.global_steps == 3
    for mine, other in zip(plain.module.parameters(), net.parameters()):
        torch.testing.assert_close(mine, other)


def test_bf16_is_computed_with_and_fp32_is_kept() -> None:
    plain, net = engine({"bf16": {"enabled": True}}), model().bfloat16()
    masters = [p.detach().float().requires_grad_() for p in net.parameters()]
    adamw = torch.optim.AdamW(masters, lr=0.01, weight_decay=0.1)
    for batch in BATCHES:
        plain.backward(loss_of(plain, batch))
        plain.step()
        net.zero_grad()
        loss_of(net, batch).backward()
        for master, p in zip(masters, net.parameters()):
            master.grad = p.grad.float()
        adamw.step()
        with torch.no_grad():
            for master, p in zip(masters, net.parameters()):
                p.copy_(master)
    assert plain.training_precision is not None
    for mine, master in zip(plain.training_precision.parameters.values(), masters):
        torch.testing.assert_close(mine, master.detach())


def test_a_boundary_that_the_caller_sets_counts_and_so_does_the_callers_own_optimizer_and_schedule() -> None:
    net = model()
    sgd = torch.optim.SGD(net.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(sgd, lambda step: 0.5**step)
    plain = engine({"gradient_accumulation_steps": 4}, net, optimizer=sgd, scheduler=schedule)
    start = copy.deepcopy(net.state_dict())
    plain.set_gradient_accumulation_boundary(True)
    gradients = torch.autograd.grad(loss_of(net, BATCHES[0]), list(net.parameters()))
    plain.backward(loss_of(plain, BATCHES[0]), scale_wrt_gas=False)
    plain.step()
    assert (plain.global_steps, plain.get_lr()) == (1, [0.5])
    for (name, value), gradient in zip(net.named_parameters(), gradients):
        torch.testing.assert_close(value.detach(), start[name] - gradient)


def test_an_fp16_step_that_overflows_is_skipped_and_the_scale_is_halved_when_patience_ends() -> None:
    plain = engine({"fp16": {"enabled": True, "initial_scale_power": 4, "hysteresis": 1}})
    start = copy.deepcopy(plain.module.state_dict())
    plain.backward(loss_of(plain, BATCHES[0]) * 1e30)
    plain.step()
    assert (plain.global_steps, plain.skipped_steps, plain.was_step_applied()) == (1, 1, False)
    assert all(torch.equal(value, start[name]) for name, value in plain.module.state_dict().items())
    scale = LossScale({"initial_scale_power": 4})
    scale.stepped(overflow=True)
    scale.stepped(overflow=True)
    assert scale.value == 8


def test_perturbed_weights_are_computed_with_and_not_kept() -> None:
    plain = engine({}, start=EngineStart(perturbations=1, perturbed=torch.bfloat16))
    kept, computed = plain.training_precision.start, dict(plain.module.named_parameters())  # type: ignore[union-attr]
    off = max(float(((computed[name].detach() - values) / values).abs().max()) for name, values in kept.items())
    assert 0 < off <= torch.finfo(torch.bfloat16).eps


def test_what_is_the_models_is_the_engines_and_what_is_deepspeeds_alone_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(PlainEngine, "names_of_deepspeed", frozenset(("offload_states",)))
    net = model()
    net.name = "mine"
    plain = engine({}, net)
    assert plain.name == "mine"
    assert not hasattr(plain, "offload_states")
    with pytest.raises(HasNot, match=r"engine\.offload_states, which plain PyTorch does not have"):
        plain.offload_states()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"curriculum_learning": {"enabled": True}}, "curriculum_learning"),
        ({"zero_optimization": {"stage": 3, "zero_quantized_weights": True}}, "zero_quantized_weights"),
        ({"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}}, "bf16_master_weights_and_grads"),
        ({"tensor_parallel": {"autotp_size": 2}}, "tensor_parallel"),
        ({"optimizer": {"type": "OneBitAdam"}}, "OneBitAdam"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_plain_pytorch_does_not_know_has_no_truth(config: dict[str, Any], why: str) -> None:
    with pytest.raises(NoTruth, match=why):
        engine(config)


def test_sizes_are_those_that_two_of_three_say_and_no_clipping_is_the_default() -> None:
    read = plain_settings.read_plain_settings(
        {"train_batch_size": 32, "gradient_accumulation_steps": 4, "progressive_layer_drop": {}}, 2
    )
    assert (read.micro_batch, read.accumulation, read.clip, read.dtype) == (4, 4, None, torch.float32)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_new_engine_goes_on_from_a_checkpoint(tmp_path: Path, dtype: str) -> None:
    config = {dtype: {"enabled": True}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}}}

    def trained(plain: PlainEngine, batches: Any) -> None:
        for batch in batches:
            plain.backward(loss_of(plain, batch))
            plain.step()

    whole, first, second = engine(config), engine(config), engine(config)
    trained(whole, BATCHES)
    trained(first, BATCHES[:3])
    first.save_checkpoint(str(tmp_path), client_state={"epoch": 1})
    path, state = second.load_checkpoint(str(tmp_path))
    assert (path, state) == (str(tmp_path / "global_step3"), {"epoch": 1})
    trained(second, BATCHES[3:])
    assert (second.global_steps, second.get_lr()) == (6, whole.get_lr())
    for mine, other in zip(second.training_precision.parameters.values(), whole.training_precision.parameters.values()):
        assert torch.equal(mine, other)
    with pytest.raises(NoTruth, match="a part of a checkpoint"):
        second.load_checkpoint(str(tmp_path), load_module_only=True)
    assert engine(config).load_checkpoint(str(tmp_path / "none")) == (None, {})
