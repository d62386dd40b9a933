"""Small tensors on the simulated device keep their contents; what is unknown is answered, or refused with the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from tests.probe import one_memory  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import Simulation, SimulationError, answers  # noqa: E402
from vgpu.sim.known import INDEX_LIMIT_BYTES, LIMIT_BYTES  # noqa: E402

DEVICE = Simulation.device
RANKS = 8


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(0, RANKS, kernels="cpu") as simulation:
        yield simulation


def unknown(*shape: int) -> Any:
    return torch.rand(shape, device=DEVICE)


#: What a program makes of these tensors is the same on the device as on the host.
COMPUTED: dict[str, Callable[[str], Any]] = {
    "tensor": lambda device: torch.tensor([[1, 2], [3, 0]], device=device),
    "as_tensor": lambda device: torch.as_tensor([1.5, 2.5], device=device),
    "new_tensor": lambda device: torch.zeros(2, device=device).new_tensor([3, 4]),
    "copied": lambda device: torch.tensor([1, 2]).to(device),
    "copied into": lambda device: torch.zeros(2, 2, device=device).copy_(torch.tensor([5, 6])),
    "cast": lambda device: torch.tensor([1.7, -2.2]).to(device, torch.int32),
    "ones": lambda device: torch.ones(3, device=device),
    "full": lambda device: torch.full((2,), 7, device=device),
    "arange": lambda device: torch.arange(3, 9, 2, device=device),
    "eye": lambda device: torch.eye(2, device=device),
    "like": lambda device: torch.full_like(torch.ones(3, device=device), 2),
    "filled": lambda device: torch.empty(3, device=device).fill_(4),
    "integers never written": lambda device: torch.empty(3, dtype=torch.int64, device=device).zero_(),
    "through a view": lambda device: torch.arange(6, device=device).view(2, 3).t()[1].add_(10)._base,
    "rows": lambda device: (lambda x: (x[0].fill_(1), x)[1])(torch.zeros(2, 2, device=device)),
    "masked": lambda device: (lambda x: x[x > 2])(torch.arange(6, device=device)),
    "mask assigned": lambda device: (lambda x: (x.__setitem__(x > 2, -1), x)[1])(torch.arange(6, device=device)),
    "nonzero": lambda device: torch.tensor([[0, 1], [1, 1]], device=device).nonzero(),
    "where": lambda device: torch.where(torch.tensor([0, 1, 1], device=device) > 0)[0],
    "unique": lambda device: torch.tensor([3, 1, 3], device=device).unique(return_counts=True)[1],
    "repeated": lambda device: torch.arange(3, device=device).repeat_interleave(torch.tensor([2, 0, 1], device=device)),
    "selected": lambda device: (lambda x: x.masked_select(x != 1))(torch.arange(3, device=device)),
    "counted": lambda device: torch.tensor([1, 1, 3], device=device).bincount(),
    "concatenated": lambda device: torch.cat([torch.ones(2, device=device), torch.zeros(1, device=device)]),
    "out": lambda device: torch.add(torch.ones(2, device=device), 1, out=torch.zeros(2, device=device)),
    "for each": lambda device: (lambda x: (torch._foreach_add_([x], 2), x)[1])(torch.ones(2, device=device)),
    "back": lambda device: torch.tensor([1, 2], device=device).cpu(),
    "mean": lambda device: torch.tensor([1.0, 2.0], device=device).mean(),
    "an empty one": lambda device: torch.zeros(0, device=device).sum(),
}  # fmt: skip


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_what_is_computed_from_known_values_is_known(simulation: Simulation, compute: Callable[[str], Any]) -> None:
    assert compute(DEVICE).tolist() == compute("cpu").tolist()


def test_an_unknown_operand_ends_what_is_known(simulation: Simulation) -> None:
    flags = torch.zeros(3, device=DEVICE)
    view = flags[1:]
    view.add_(unknown(2))
    with pytest.raises(SimulationError, match="data-dependent decision"):
        bool((flags > 0).all())


def test_weights_are_unknown_wherever_they_come_from(simulation: Simulation) -> None:
    layer = torch.nn.Linear(2, 2).to(DEVICE)
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(SimulationError, match="data-dependent decision"):
        bool((layer(torch.ones(2, device=DEVICE)) > 0).all())


def test_a_tensor_above_the_limit_is_unknown(simulation: Simulation) -> None:
    assert torch.zeros(INDEX_LIMIT_BYTES, dtype=torch.bool, device=DEVICE).any().item() is False
    assert (torch.zeros(LIMIT_BYTES // 4, device=DEVICE) > 0).any().item() is False
    for dtype, size in ((torch.bool, INDEX_LIMIT_BYTES), (torch.float32, LIMIT_BYTES)):
        above = torch.zeros(size // dtype.itemsize + 1, dtype=dtype, device=DEVICE)
        with pytest.raises(SimulationError):
            bool((above > 0)[:1].any())


def test_a_routers_mask_of_many_tokens_gives_each_expert_its_share(simulation: Simulation) -> None:
    tokens, experts, choices = 16384, 8, 2
    _, chosen = unknown(tokens, experts).topk(choices)
    mask = torch.nn.functional.one_hot(chosen, num_classes=experts).permute(2, 1, 0)  # as in modeling_mixtral.py
    shares = [torch.where(mask[expert])[1].numel() for expert in range(experts)]
    assert shares == [tokens * choices // experts] * experts


def test_a_storage_that_is_freed_and_made_again_is_unknown(simulation: Simulation) -> None:
    flags = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    flags.untyped_storage().resize_(0)
    flags.untyped_storage().resize_(32)
    with pytest.raises(SimulationError, match="a size in a tensor"):
        flags[0].item()


def test_collectives_have_the_result_of_equal_ranks(simulation: Simulation) -> None:
    lengths = torch.tensor([3, 5], device=DEVICE)
    gathered = torch.empty(2 * RANKS, dtype=torch.int64, device=DEVICE)
    dist.all_gather_into_tensor(gathered, lengths)
    each = [torch.empty_like(lengths) for _ in range(RANKS)]
    dist.all_gather(each, lengths)
    dist.all_reduce(lengths)
    largest = torch.tensor(2.5, device=DEVICE)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    dist.broadcast(largest, 0)
    share = torch.empty(2, dtype=torch.int64, device=DEVICE)
    dist.reduce_scatter_tensor(share, gathered)
    objects: list[Any] = [None] * RANKS
    dist.all_gather_object(objects, {"rank": 0})
    assert gathered.tolist() == [3, 5] * RANKS
    assert [one.tolist() for one in each] == [[3, 5]] * RANKS
    assert lengths.tolist() == [3 * RANKS, 5 * RANKS]
    assert largest.item() == 2.5
    assert share.tolist() == [3 * RANKS, 5 * RANKS]
    assert objects == [{"rank": 0}] * RANKS


def test_random_integers_are_drawn_and_leave_the_host_its_own(simulation: Simulation) -> None:
    before = torch.get_rng_state()
    assert sorted(torch.randperm(5, device=DEVICE).tolist()) == [0, 1, 2, 3, 4]
    assert set(torch.randint(3, 5, (20,), device=DEVICE).tolist()) == {3, 4}
    assert torch.equal(torch.get_rng_state(), before)


def test_unknown_floats_are_logged_as_one_and_healthy(simulation: Simulation) -> None:
    loss = unknown()
    assert (loss.item(), float(loss), f"{loss:.2f}", loss.tolist()) == (1.0, 1.0, "1.00", 1.0)
    assert loss.cpu().numpy() == 1.0
    assert unknown(2).tolist() == [1.0, 1.0]
    large = unknown(1 << 20)
    assert not torch.isnan(large).any()
    assert not torch.isinf(unknown(3)).any()
    assert torch.isfinite(large).all()
    assert loss == loss
    assert not bool(loss > 10)


@pytest.mark.parametrize("shape", [(8, 8, 3), (2, 3, 8, 8)])
def test_unknown_images_are_logged_as_black_ones(simulation: Simulation, shape: tuple[int, ...]) -> None:
    image = unknown(*shape).mul(255).clamp(0, 255).to("cpu", torch.uint8).numpy()
    assert (image.shape, image.max()) == (shape, 0)


def test_no_gradient_of_a_healthy_job_overflows(simulation: Simulation) -> None:
    found = torch.zeros(1, device=Simulation.device)
    gradients = [torch.randn(4, device=Simulation.device)]
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.ones(1, device=Simulation.device))
    assert (found.item() > 0, gradients[0][0].item()) == (False, 1.0)


def test_where_nothing_is_nan_a_filter_takes_all(simulation: Simulation) -> None:
    rewards = unknown(4)
    assert rewards[~torch.isnan(rewards)].shape == (4,)


def test_how_many_of_unknown_comparisons_are_true_is_half(simulation: Simulation) -> None:
    ratio, logits = unknown(4, 8), unknown(10, 3)
    clipped = (ratio.clamp(0.8, 1.2) != ratio).sum().item() / ratio.numel()
    assert clipped == 0.5
    assert torch.count_nonzero(logits > 0).item() == 15


REFUSED: dict[str, Callable[[], Any]] = {
    "branch": lambda: bool((unknown(3) > 0).any()),
    "size": lambda: unknown(3).long()[0].item(),
    "how many of one row": lambda: (unknown(3, 3) > 0).sum(1)[0].item(),
    "mask": lambda: unknown(3)[unknown(3) > 0],
    "nonzero": lambda: unknown(3).nonzero(),
    "comparison": lambda: torch.equal(unknown(3), unknown(3)),
    "integers on the host": lambda: unknown(3).long().cpu().numpy(),
    "bytes that are no image": lambda: unknown(8, 8, 5).cpu().to(torch.uint8).numpy(),
}  # fmt: skip


@pytest.mark.parametrize("decide", REFUSED.values(), ids=REFUSED)
def test_what_decides_by_unknown_values_is_refused_with_the_place(
    simulation: Simulation, decide: Callable[[], Any]
) -> None:
    with pytest.raises(SimulationError, match=r"At tests/vgpu/sim/test_known.py:\d+ in <lambda>"):
        decide()


def test_sampled_tokens_are_ordinary_ones_and_differ(simulation: Simulation) -> None:
    vocabulary = 32_000
    tokens = torch.multinomial(unknown(16, vocabulary), 1).flatten().tolist()
    tokens += unknown(16, vocabulary).argmax(-1).tolist()
    assert len(set(tokens)) == 32
    assert all(vocabulary // 4 <= token < 3 * vocabulary // 4 for token in tokens)


def test_experts_are_chosen_evenly(simulation: Simulation) -> None:
    _, experts = unknown(64, 8).topk(2)
    assert experts.unique(return_counts=True)[1].tolist() == [16] * 8
    assert all(a != b for a, b in experts.tolist())


def test_a_loop_that_asks_for_ever_is_ended_with_its_place(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers.Questions, "LIMIT_S", 0.01)
    error = unknown()

    def iterate() -> None:
        nonlocal error
        while error.item() > 0.5:
            error = error * 0.5

    with pytest.raises(SimulationError, match=r"a loop that does not end: .* At tests/vgpu/sim/test_known.py:\d+ in"):
        iterate()


def test_a_generation_that_reads_a_value_for_each_token_is_not_ended(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers.Questions, "LIMIT_S", 0.0)
    weight = unknown(8, 8)
    for _ in range(answers.Questions.LIMIT + 2):
        (weight @ weight).sum().item()


def test_every_operator_is_a_sign_of_life(simulation: Simulation) -> None:
    signs: list[None] = []
    simulation.meter.working = lambda: signs.append(None)
    unknown(4) + unknown(4)
    assert len(signs) == 3


def train(device: str) -> None:
    """A job with padding, masks and boolean indices."""
    torch.manual_seed(0)
    embedding, head = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32)
    embedding, head = embedding.to(device), head.to(device)
    optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
    for lengths in ([3, 7, 5], [1, 2, 9]):
        rows = [torch.arange(1, length + 1) for length in lengths]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
        mask = tokens != 0
        if mask.all():
            raise AssertionError("these rows are padded")
        hidden = embedding(tokens)
        packed = hidden[mask] * mask.sum(1).repeat_interleave(mask.sum(1))[:, None]
        logits = head(packed)
        kept = torch.where(tokens[mask] > 2)[0]
        loss = torch.nn.functional.cross_entropy(logits[kept], tokens[mask][kept])
        loss = loss + torch.masked_select(logits, (tokens[mask] < 3)[:, None]).sum()
        loss = loss + hidden.sum() / max(int(mask.sum()), 1) + tokens.unique().numel()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_masks_and_padding_are_equal_to_real_tensors_to_the_byte() -> None:
    readings = []
    for surroundings, device in ((Simulation(0, 1, kernels="cpu"), DEVICE), (TorchMeter("cpu", trace=True), "cpu")):
        with surroundings:
            meter: Any = getattr(surroundings, "meter", surroundings)
            meter.begin()
            train(device)
            moves = len(meter.ledger.moves)
            reading = meter.end()
            [(peak, held)] = one_memory.figures(meter.ledger.trace, meter.ledger.moves, 1)
        readings.append((peak, held, reading.op_launches - moves, reading.flops, reading.collectives))
    assert readings[0] == readings[1]
