"""Drives tinyframe: a `dsregress.probe.framework.JobAdapter`."""

import contextlib
import math
import os
import sys

from vgpu.figures import PhaseReading

WEIGHTS = 1000


def preload(device):
    import tinyframe  # noqa: F401

    print("a framework greets whoever reads its output {")
    os.write(1, b'{"event": "ended"}\n')


def world_size(parameters, device):
    return parameters["world_size"]


def surroundings(parameters, device):
    return contextlib.nullcontext(Meter())


class Meter:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None

    def begin(self):
        from tinyframe import Memory

        Memory.peak = Memory.held

    def end(self):
        from tinyframe import Memory

        return PhaseReading(device_peak_bytes=Memory.peak, device_retained_bytes=Memory.held)


def start(parameters, device, shape, measured):
    from tinyframe import Engine

    with measured():
        engine = Engine([0.0] * WEIGHTS, int(os.environ["RANK"]))
    return Training(engine, parameters["gradient_accumulation_steps"])


def batch(step):
    return [math.sin(step + index) for index in range(WEIGHTS)]


class Training:
    def __init__(self, engine, micro_batches):
        self.engine, self.micro_batches = engine, micro_batches
        self.at, self.value, self.norm = -1, None, None

    def next_batch(self):
        self.at += 1

    def forward(self, micro_batch):
        self.value = self.engine.forward(batch(self.at))

    def backward(self, micro_batch):
        sys.stderr.write("\x1b[31mbackward <script>\x1b[0m\n")
        self.engine.backward(batch(self.at))

    def step(self, micro_batch):
        if micro_batch == self.micro_batches - 1:
            self.norm = self.engine.step()

    def loss(self):
        return self.value

    def gradient_norm(self):
        return self.norm

    def parameters(self):
        return {"weights": list(self.engine.weights)}

    def configuration(self):
        return {f"tinyframe.{name}": value for name, value in self.engine.config.items()}


def judge(parameters, device, shape, steps, trained, numerics):
    weights, losses, norms = [0.0] * WEIGHTS, [], []
    for step in range(steps):
        inputs = batch(step)
        offsets = [(w - 1.0) * x for w, x in zip(weights, inputs)]
        gradients = [2.0 * o * x / WEIGHTS for o, x in zip(offsets, inputs)]
        losses.append(sum(o * o for o in offsets) / WEIGHTS)
        norms.append(sum(g * g for g in gradients) ** 0.5)
        weights = [w - 0.1 * g for w, g in zip(weights, gradients)]
    numerics.true_losses, numerics.true_gradient_norms = losses, norms
    numerics.loss_error = max(abs(a - b) for a, b in zip(numerics.losses, losses)) / 1e-9
    numerics.gradient_norm_error = max(abs(a - b) for a, b in zip(numerics.gradient_norms, norms)) / 1e-9
    numerics.parameter_error = max(abs(a - b) for a, b in zip(trained["weights"], weights)) / 1e-9
    numerics.parameter_digest = str(hash(tuple(trained["weights"])))
