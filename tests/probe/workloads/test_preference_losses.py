"""The losses of preference and reinforcement learning, against what they must come to by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.workloads import preference_losses  # noqa: E402

ONES = torch.ones(1, 4)


def test_log_probabilities_are_those_of_the_next_tokens() -> None:
    logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(0, 7, (2, 5), generator=torch.Generator().manual_seed(2))
    found = preference_losses.log_probabilities(logits.bfloat16(), ids)
    every = torch.log_softmax(logits.bfloat16().float(), -1)
    for row in range(2):
        for column in range(4):
            assert found[row, column].item() == pytest.approx(every[row, column, ids[row, column + 1]].item(), abs=1e-5)


def test_a_policy_that_has_not_moved_gains_its_mean_advantage() -> None:
    same = torch.randn(1, 4)
    assert preference_losses.policy_loss(
        same, same, torch.tensor([[1.0, 2.0, 3.0, 6.0]]), ONES
    ).item() == pytest.approx(-3.0)


def test_beyond_the_trust_region_a_gain_is_cut_and_has_no_gradient_and_a_loss_is_not_cut() -> None:
    new = torch.full((1, 4), math.log(2.0), requires_grad=True)
    gain = preference_losses.policy_loss(new, torch.zeros(1, 4), ONES, ONES)
    assert gain.item() == pytest.approx(-1.2)
    gain.backward()
    assert new.grad is not None
    assert not new.grad.any()
    assert preference_losses.policy_loss(new, torch.zeros(1, 4), -ONES, ONES).item() == pytest.approx(2.0)


def test_only_the_answers_count() -> None:
    new, mask = torch.tensor([[9.0, 9.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    assert preference_losses.policy_loss(new, torch.zeros(1, 4), ONES, mask).item() == pytest.approx(-1.0)


def test_the_divergence_is_zero_from_itself_and_positive_from_anything_else() -> None:
    policy = torch.randn(1, 4)
    assert preference_losses.divergence(policy, policy, ONES).item() == 0
    assert preference_losses.divergence(policy, policy + 0.5, ONES).item() == pytest.approx(
        math.exp(0.5) - 1.5, rel=1e-5
    )


def test_the_critic_pays_the_larger_of_the_plain_and_the_clipped_error() -> None:
    values, old, returns = torch.full((1, 4), 1.0), torch.zeros(1, 4), torch.full((1, 4), 1.0)
    assert preference_losses.value_loss(values, old, returns, ONES).item() == pytest.approx(0.5 * 0.8**2)


def test_a_reward_at_the_end_is_the_return_of_every_token_before_it() -> None:
    rewards, values = torch.tensor([[0.0, 0.0, 0.0, 2.0]]), torch.tensor([[0.5, 0.0, 1.0, 2.0]])
    returns, advantages = preference_losses.returns_and_advantages(rewards, values, ONES)
    assert returns.tolist() == [[2.0] * 4]
    assert advantages.tolist() == [[1.5, 2.0, 1.0, 0.0]]


def test_advantages_of_a_group_are_centred_and_survive_equal_rewards() -> None:
    found = preference_losses.group_advantages(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert found.mean().item() == pytest.approx(0, abs=1e-6)
    assert found.std().item() == pytest.approx(1)
    assert not preference_losses.group_advantages(torch.ones(4)).any()


def test_a_policy_that_is_its_reference_has_a_dpo_loss_of_log_2() -> None:
    chosen, rejected = torch.tensor([-3.0]), torch.tensor([-5.0])
    assert preference_losses.dpo_loss(chosen, rejected, chosen, rejected).item() == pytest.approx(math.log(2))
    better = preference_losses.dpo_loss(chosen + 10, rejected, chosen, rejected).item()
    assert better == pytest.approx(math.log1p(math.exp(-1.0)), rel=1e-5)
