"""``torch.compile`` on the virtual card: eager code, and a note."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo import eval_frame  # noqa: E402

from vgpu.device.books import Books  # noqa: E402
from vgpu.device.compilers import NOT_APPLIED, SET_CALLBACK, eager  # noqa: E402
from vgpu.replacing import MissingTarget  # noqa: E402


@torch.compile(fullgraph=True)
def compiled_before(x: torch.Tensor) -> torch.Tensor:
    """As a library's function, which it decorates when it is imported."""
    return x * 2


def test_a_compiled_model_is_wrapped_and_runs_eagerly_and_that_is_noted(books: Books) -> None:
    model = torch.nn.Linear(2, 2, device="cuda")
    compiled = torch.compile(model, mode="max-autotune")
    assert compiled._orig_mod is model
    assert compiled.state_dict().keys() == {"_orig_mod.weight", "_orig_mod.bias"}
    assert books.notes == []  # it was not called yet
    assert compiled(torch.ones(1, 2, device="cuda")).is_cuda
    compiled(torch.ones(1, 2, device="cuda"))
    assert books.notes == [NOT_APPLIED]


def test_functions_and_modules_compiled_in_place_run_eagerly(books: Books) -> None:
    model = torch.nn.Linear(2, 2, device="cuda")
    model.compile()
    assert model(torch.compile(torch.relu)(torch.ones(1, 2, device="cuda"))).is_cuda
    assert books.notes == [NOT_APPLIED]


def test_what_was_compiled_before_there_was_a_card_runs_eagerly(books: Books) -> None:
    assert compiled_before(torch.ones(1, device="cuda")).is_cuda
    assert books.notes == [NOT_APPLIED]


def test_what_torch_would_not_compile_is_not_noted(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model, disable=True) is model
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert torch.compile(model) is model
    assert books.notes == []


@pytest.mark.parametrize("lacking", SET_CALLBACK)
def test_a_release_may_set_the_callback_by_one_of_two_functions(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.5 and 2.6 have the second alone."""
    monkeypatch.setattr(eval_frame, SET_CALLBACK[0], getattr(eval_frame, SET_CALLBACK[1]), raising=False)
    monkeypatch.delattr(eval_frame, lacking)
    with eager(lambda note: None):
        assert not hasattr(eval_frame, lacking)


def test_a_release_that_sets_the_callback_by_neither_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SET_CALLBACK:
        monkeypatch.delattr(eval_frame, name, raising=False)
    with pytest.raises(MissingTarget, match="has no 'set_eval_frame'"), eager(lambda note: None):
        pass


@torch.jit.script
def scripted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x + y) * y


def test_a_program_that_asks_for_torchscripts_former_executor_runs_without_it(books: Books) -> None:
    was = torch._C._jit_set_profiling_executor(False), torch._C._jit_set_profiling_mode(False)
    assert was == (True, True)
    torch._C._jit_override_can_fuse_on_gpu(True)
    x = torch.ones(4, 4, device="cuda", requires_grad=True)
    for _ in range(3):
        scripted(x, x * 2).sum().backward()
    assert x.grad is not None
