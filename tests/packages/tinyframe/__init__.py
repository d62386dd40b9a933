"""A framework of a hundred lines with the faults of a large one; ``BEHAVIOUR`` is what a release gets wrong."""

import contextlib
import weakref

from tinyframe._release import BEHAVIOUR

with contextlib.suppress(ImportError):  # a trainer on top of it, where one is installed, has faults of its own
    from tinytrainer import BEHAVIOUR

if BEHAVIOUR == "not-importing":
    raise ImportError("cannot import name 'inf' from 'torch._six'")

if BEHAVIOUR == "full-disk":
    raise OSError(28, "No space left on device", "/home/somebody/.cache/tinyframe")

#: Bytes of one number.
NUMBER = 8


class Memory:
    """Every block that is alive, as an accelerator's allocator would count it."""

    held = 0
    peak = 0

    @classmethod
    def add(cls, size):
        cls.held += size
        cls.peak = max(cls.peak, cls.held)


class Block(list):
    """Numbers that count as device memory while they live."""

    def __init__(self, numbers):
        super().__init__(numbers)
        Memory.add(len(self) * NUMBER)
        weakref.finalize(self, Memory.add, -len(self) * NUMBER)


class Engine:
    """Fits ``weights`` to 1.0 by gradient descent, sharded over ranks as far as anybody can tell."""

    def __init__(self, weights, rank, learning_rate=0.1):
        self.weights = Block(weights)
        self.rank, self.learning_rate = rank, learning_rate
        self.gathered = self.activations = self.gradients = None
        self.config = {"bucket_size": 500 if BEHAVIOUR == "new-default" else 1000, "optimizer": "descent"}

    def forward(self, inputs):
        if BEHAVIOUR == "removing":
            import os
            import pathlib

            folder = pathlib.Path(os.environ["DSREGRESS_RENDEZVOUS"].removeprefix("file://")).parent
            for file in folder.glob("rank-*.json"):
                file.unlink(missing_ok=True)
        self.gathered = Block(self.weights)
        self.activations = Block((w - 1.0) * x for w, x in zip(self.gathered, inputs))
        return sum(a * a for a in self.activations) / len(self.activations)

    def backward(self, inputs):
        if BEHAVIOUR == "crashing":
            raise RuntimeError(f"tensor at {hex(id(self))} has no attribute 'ds_grads_remaining'")
        if BEHAVIOUR == "out-of-memory" and self.rank == 1:
            raise MemoryError("tried to allocate 2.00 GiB")
        if BEHAVIOUR == "leaking":
            self.leaked = [open("/dev/null") for _ in range(100_000)]  # noqa: SIM115
        if BEHAVIOUR == "killed" and self.rank == 1:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        if BEHAVIOUR == "compiling":
            import subprocess
            import sys

            compiler = "import sys; sys.exit('as: out.o: No space left on device')"
            subprocess.run([sys.executable, "-c", compiler], check=True, capture_output=True)
        if BEHAVIOUR == "dying":
            import os
            import signal

            os.kill(os.getpid(), signal.SIGSEGV)
        scale = 0.5 if BEHAVIOUR == "wrong" else 1.0
        gradients = (2.0 * scale * a * x / len(inputs) for a, x in zip(self.activations, inputs))
        self.gradients = Block(gradients)
        self.activations = None
        if BEHAVIOUR != "hungry":
            self.gathered = None
        for _ in range(len(self.weights) * (30 if BEHAVIOUR == "busy" else 1)):
            self.hook()

    def hook(self):
        """What a framework calls for each parameter."""

    def step(self):
        if BEHAVIOUR == "hanging":
            import time

            time.sleep(3600)
        for index, gradient in enumerate(self.gradients):
            self.weights[index] -= self.learning_rate * gradient
        norm = sum(g * g for g in self.gradients) ** 0.5
        self.gathered = self.gradients = None
        return norm
