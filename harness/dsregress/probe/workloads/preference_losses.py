"""The losses of preference and reinforcement learning, as the reported workloads compute them. Pure functions of
tensors; needs torch.

Shapes: ``rows`` sequences (or packs of them) of ``tokens`` tokens. Tensors about predictions have ``tokens - 1``
columns: column *t* is about token *t + 1*. Sources: Schulman et al., "Proximal Policy Optimization Algorithms", 2017
(arXiv:1707.06347), equation 7; Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
Estimation", 2015 (arXiv:1506.02438); Rafailov et al., "Direct Preference Optimization", 2023 (arXiv:2305.18290),
equation 7; Shao et al., "DeepSeekMath", 2024 (arXiv:2402.03300), section 4.1.2 for advantages within a group.

TRL has such losses too, inside trainers with their own datasets, tokenizers and loop. That is no small dependency, so
the formulas here are the project's, written from the papers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

#: Half the width of the trust region around the old policy and the old values (OpenRLHF's and TRL's default).
CLIP = 0.2
#: DPO's temperature (LLaMA-Factory's ``pref_beta`` and TRL's default).
BETA = 0.1
#: Avoids a division by zero in a group whose rewards are all equal.
_LEAST_DEVIATION = 1e-9


def log_probabilities(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each token after the first: (rows, tokens, vocabulary), (rows, tokens) -> (rows,
    tokens - 1).

    In fp32, as OpenRLHF, LLaMA-Factory and TRL do: a whole copy of the logits, which at a large vocabulary is the
    largest activation of all. The normalizer is computed row by row, so that no second copy of all rows is made at once.
    """
    scores = logits[:, :-1].float()
    chosen = scores.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return chosen - torch.stack([torch.logsumexp(row, dim=-1) for row in scores])


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of the values where the mask is set; a scalar."""
    return (values * mask).sum() / mask.sum()


def policy_loss(
    new: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, clip: float = CLIP
) -> torch.Tensor:
    """Return PPO's clipped surrogate, negated: the mean over the masked tokens. ``new`` and ``old`` are
    log-probabilities."""
    ratio = (new - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
    return -masked_mean(surrogate, mask)


def divergence(new: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return an estimate of KL(new || reference) that is never negative (Schulman's k3, arXiv:2402.03300 equation 4)."""
    log_ratio = reference - new
    return masked_mean(log_ratio.exp() - log_ratio - 1, mask)


def value_loss(
    values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, clip: float = CLIP
) -> torch.Tensor:
    """Return half the squared error of the critic, or of its values clipped to near the old ones, whichever is larger,
    as a masked mean."""
    close = old + (values - old).clamp(-clip, clip)
    return 0.5 * masked_mean(torch.maximum((values - returns) ** 2, (close - returns) ** 2), mask)


def returns_and_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the returns and the advantages by generalized advantage estimation with gamma and lambda both 1, as
    Open-Reasoner-Zero sets them: the return of a token is the sum of all rewards from it on, its advantage the return
    minus the critic's value."""
    returns = (rewards * mask).flip(-1).cumsum(-1).flip(-1)
    return returns, (returns - values) * mask


def group_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Return the advantages of the samples of one prompt: the distance of their rewards from the group's mean, in
    standard deviations."""
    return (rewards - rewards.mean()) / (rewards.std() + _LEAST_DEVIATION)


def dpo_loss(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    reference_chosen: torch.Tensor,
    reference_rejected: torch.Tensor,
    beta: float = BETA,
) -> torch.Tensor:
    """Return DPO's logistic loss, the mean over the pairs. Each argument is the summed log-probability of an answer,
    (pairs,)."""
    margin = (chosen - rejected) - (reference_chosen - reference_rejected)
    return -F.logsigmoid(beta * margin).mean()
