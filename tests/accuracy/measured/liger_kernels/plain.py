"""The plain counterparts that Liger's benchmarks compare its kernels with, as far as memory depends on them."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class JSD(nn.Module):
    def __init__(self):
        super().__init__()
        self.kl = nn.KLDivLoss(reduction="batchmean", log_target=True)

    def forward(self, log_q, log_p):
        log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
        mixed = torch.lerp(torch.exp(log_p), torch.exp(log_q), 0.5)
        return 0.5 * self.kl(torch.log(mixed), log_p) + (1 - 0.5) * self.kl(torch.log(mixed), log_q)


class JSDByRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.kl = nn.KLDivLoss(reduction="none", log_target=True)

    def forward(self, log_q, log_p):
        log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
        mixed = torch.lerp(torch.exp(log_q), torch.exp(log_p), 0.5)
        loss = 0.5 * self.kl(torch.log(mixed), log_p).sum(dim=-1) + (1 - 0.5) * self.kl(torch.log(mixed), log_q).sum(
            dim=-1
        )
        return (loss / log_q.shape[0]).sum()


def tvd(p, q):
    distance = torch.abs(p - q) / 2.0
    return torch.sum(distance) / p.size(0)


class HeadCE(nn.Module):
    def __init__(self, lin):
        super().__init__()
        self.lin, self.loss = lin, nn.CrossEntropyLoss(ignore_index=-100, reduction="mean")

    def forward(self, given, target):
        logits = self.lin(given)
        return self.loss(logits, target)


class HeadJSD(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher, self.loss = student, teacher, JSD()

    def forward(self, student, teacher):
        student_logits = self.student(student)
        teacher_logits = self.teacher(teacher)
        student_prob = torch.log_softmax(student_logits / 1.0, dim=-1)
        teacher_prob = torch.log_softmax(teacher_logits / 1.0, dim=-1)
        return self.loss(student_prob, teacher_prob).to(student.dtype)


# Preferences: pairs of a chosen and a rejected answer, as trl computes them.


def mean_log_probabilities(logits, labels, ignore=-100):
    mask = labels != ignore
    labels = torch.where(labels == ignore, 0, labels)
    per_token = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (per_token * mask).sum(-1) / mask.sum(-1)


def orpo(chosen, rejected):
    odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    return 0.1 * F.logsigmoid(odds)


def cpo(chosen, rejected):
    logits = chosen - rejected
    return F.logsigmoid(0.1 * logits) * (1 - 0.0) + F.logsigmoid(-0.1 * logits) * 0.0


def simpo(chosen, rejected):
    logits = chosen - rejected - (0.5 / 0.1)
    return F.logsigmoid(0.1 * logits) * (1 - 0.0) + F.logsigmoid(-0.1 * logits) * 0.0


class HeadPairs(nn.Module):
    def __init__(self, lin, kind):
        super().__init__()
        self.lin, self.kind = lin, kind

    def both(self, given, target):
        half = given.shape[0] // 2
        outputs = given @ self.lin.weight.t()
        logits = outputs.float()
        loss = nn.CrossEntropyLoss(ignore_index=-100)(
            logits[:half].view(-1, logits.shape[-1]), target[:half].reshape(-1)
        )
        logps = mean_log_probabilities(logits, target)
        return logps[:half], logps[half:], logits[:half], logits[half:], loss

    def forward(self, given, target):
        results = self.both(given, target)
        losses = self.kind(results[0], results[1])
        return results[4] * 1.0 - losses.mean()


class HeadKTO(nn.Module):
    def __init__(self, lin, ref, ignore):
        super().__init__()
        self.lin, self.ref, self.ignore = lin, ref, ignore

    def both(self, given, target, chosen):
        outputs = given @ self.lin.weight.t()
        outputs = outputs + self.lin.bias
        logits = outputs.float()
        nothing = torch.tensor(0.0, device=logits.device)
        logps = mean_log_probabilities(logits, target, self.ignore)
        return logps[chosen], logps[~chosen], logits[chosen], logits[~chosen], nothing

    def reference(self, given, target, chosen):
        with torch.no_grad():
            logits = given @ self.ref.weight.t()
            logits = logits + self.ref.bias
            logps = mean_log_probabilities(logits, target, self.ignore)
            return logps[chosen], logps[~chosen]

    def forward(self, given, reference, target, chosen, kl):
        results = self.both(given, target, chosen)
        good, bad, good_logits, bad_logits, nothing = results
        good_ref, bad_ref = self.reference(reference, target, chosen)
        losses = torch.cat(
            (1 - F.sigmoid(0.1 * (good - good_ref - kl)), 1 - F.sigmoid(0.1 * (kl - (bad - bad_ref)))), 0
        )
        loss = nothing * 1.0 + losses.mean()
        for each in (good, bad, good_logits, bad_logits):
            each.detach().sum()
        return loss


# Distillation.


def distilled_jsd(student_logits, teacher_logits):
    student = F.log_softmax(student_logits, dim=-1)
    teacher = F.log_softmax(teacher_logits, dim=-1)
    mean = 0.5 * student.exp() + (1 - 0.5) * teacher.exp()
    log_mean = mean.log()
    student_kl = F.kl_div(log_mean, student, reduction="batchmean", log_target=True)
    teacher_kl = F.kl_div(log_mean, teacher, reduction="batchmean", log_target=True)
    return 0.5 * teacher_kl + (1 - 0.5) * student_kl


def distilled_cosine(student_logits, teacher_logits):
    student = F.normalize(student_logits, p=2, dim=-1)
    teacher = F.normalize(teacher_logits, p=2, dim=-1)
    similarity = F.cosine_similarity(student, teacher, dim=-1)
    loss = 1.0 * (1 - similarity)
    return loss.mean()


class HeadDistillation(nn.Module):
    def __init__(self, student, teacher, kind):
        super().__init__()
        self.student, self.teacher, self.kind = student, teacher, kind

    def both(self, student, teacher, target):
        student_outputs = student @ self.student.weight.t()
        with torch.no_grad():
            teacher_outputs = teacher @ self.teacher.weight.t()
        student_logits = student_outputs.float()
        teacher_logits = teacher_outputs.float()
        return student_logits, teacher_logits, nn.CrossEntropyLoss(ignore_index=-100)(student_logits, target.view(-1))

    def forward(self, student, teacher, target):
        results = self.both(student, teacher, target)
        student_logits, teacher_logits, hard = results
        student_logits /= 1.0
        teacher_logits /= 1.0
        return 0.5 * hard + 0.5 * self.kind(student_logits, teacher_logits)


class HeadGRPO(nn.Module):
    def __init__(self, lin, ref, by_sequence):
        super().__init__()
        self.lin, self.ref, self.by_sequence = lin, ref, by_sequence

    def forward(self, given, reference, chosen, mask, advantages):
        logits = given @ self.lin.weight.t()
        log_probs = F.log_softmax(logits.float(), dim=-1)
        logps = log_probs.gather(dim=-1, index=chosen.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            ref_logits = reference @ self.ref.weight.t()
            ref_log_probs = F.log_softmax(ref_logits.float(), dim=-1)
            ref_logps = ref_log_probs.gather(dim=-1, index=chosen.unsqueeze(-1)).squeeze(-1)
        ratio = logps - logps.detach()
        if self.by_sequence:
            ratio = ((ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1)
        weight = torch.exp(ratio)
        clipped = torch.clamp(weight, 1 - 0.2, 1 + 0.2)
        loss = -torch.min(weight * advantages.unsqueeze(1), clipped * advantages.unsqueeze(1))
        ref_logps = ref_logps.float()
        kl = torch.exp(ref_logps - logps) - (ref_logps - logps) - 1.0
        loss = loss + 0.1 * kl
        loss = (loss * mask).sum() / torch.clamp(mask.sum(), min=1.0)
        return loss, [(kl * mask).sum() / torch.clamp(mask.sum(), min=1.0)]


# Layers.


class TiledMLP(torch.autograd.Function):
    """An MLP by parts of the tokens, forward again in backward, as DeepSpeed's (ulysses_sp.py)."""

    @staticmethod
    def forward(ctx, mlp, given, shards):
        ctx.mlp, ctx.shards = mlp, shards
        ctx.save_for_backward(given)
        parts = list(torch.chunk(given, chunks=shards, dim=-2))
        with torch.no_grad():
            results = [mlp(part) for part in parts]
        return torch.cat(results, dim=-2)

    @staticmethod
    def backward(ctx, *grads):
        (given,) = ctx.saved_tensors
        given = given.detach()
        given.requires_grad_(True)
        hidden, shape = given.shape[-1], given.shape
        given = given.view(-1, hidden)
        incoming = grads[0].view(-1, hidden)
        gradient = torch.zeros_like(given)
        parts = list(torch.chunk(given, chunks=ctx.shards, dim=0))
        for number, part in enumerate(parts):
            part.requires_grad_(True)
            step, offset = part.shape[0], number * parts[0].shape[0]
            part.grad = gradient.narrow(0, offset, step).view_as(part)
            with torch.enable_grad():
                out = ctx.mlp(part)
            torch.autograd.backward(out, incoming.narrow(0, offset, step).view_as(part))
        return None, gradient.view(shape), None


class TiledByDeepSpeed(nn.Module):
    def __init__(self, mlp, shards):
        super().__init__()
        self.mlp, self.shards = mlp, shards

    def forward(self, given):
        return TiledMLP.apply(self.mlp, given, self.shards)


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, given):
        dtype = given.dtype
        given = given.to(torch.float32)
        variance = given.pow(2).mean(-1, keepdim=True)
        given = given * torch.rsqrt(variance + 1e-6)
        return self.weight * given.to(dtype)


class AddRMSNorm(nn.Module):
    """The sum with the residual, and its norm, by ``norm`` if there is one."""

    def __init__(self, size, norm=None):
        super().__init__()
        self.weight, self.norm = nn.Parameter(torch.ones(size)), norm

    def forward(self, given, rest):
        dtype = given.dtype
        given = given.to(torch.float32)
        rest = rest.to(torch.float32)
        given = given + rest
        rest = given
        if self.norm is None:
            variance = given.pow(2).mean(-1, keepdim=True)
            given = given * torch.rsqrt(variance + 1e-6)
        else:
            given = self.norm(given)
        return self.weight * given.to(dtype), rest.to(dtype)


class Sparsemax(nn.Module):
    def forward(self, given):
        ordered, _ = torch.sort(given, dim=-1, descending=True)
        total = torch.cumsum(ordered, dim=-1)
        size = given.size(-1)
        places = torch.arange(1, size + 1, device=given.device, dtype=given.dtype).view(1, size)
        bound = 1 + places * ordered
        support = bound > total
        number = support.sum(dim=-1, keepdim=True).clamp(min=1)
        inside = (ordered * support).sum(dim=-1, keepdim=True)
        threshold = (inside - 1) / number
        return torch.clamp(given - threshold, min=0)


class NeighborhoodAttention(nn.Module):
    def __init__(self, hidden_size, num_heads, kernel_size, dilation):
        super().__init__()
        self.heads, self.reach, self.dilation = num_heads, kernel_size // 2 * dilation, dilation
        self.size = hidden_size // num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def mask(self, length, device):
        """The source sets the ones one by one."""
        mask = torch.zeros(length, length, device=device, dtype=torch.bool)
        for offset in range(-self.reach, self.reach + 1, self.dilation):
            mask.diagonal(offset).fill_(True)
        return mask

    def forward(self, given):
        batch, length, hidden = given.shape
        query, key, value = self.q(given), self.k(given), self.v(given)
        query = query.view(batch, length, self.heads, self.size).transpose(1, 2)
        key = key.view(batch, length, self.heads, self.size).transpose(1, 2)
        value = value.view(batch, length, self.heads, self.size).transpose(1, 2)
        scores = torch.matmul(query, key.transpose(-2, -1)) * (1.0 / math.sqrt(self.size))
        mask = self.mask(length, given.device)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, value)
        out = out.transpose(1, 2).contiguous().view(batch, length, hidden)
        return self.out(out)
