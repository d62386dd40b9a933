"""The peak of one kernel of Liger and of its plain counterpart, as Liger-Kernel's own benchmarks take it: of each mode, each
provider and each size of a sweep in one process, the peak since the start of a run, several runs on."""

import argparse
import types

import kernels
import torch

RUNS = 3


def read():
    return torch.cuda.max_memory_allocated()


def peak(name):
    """Read the peak in a function of this name."""
    return types.FunctionType(read.__code__.replace(co_name=name), globals())()


def measured(job, mode, name):
    if mode == "backward":
        given, out = job.given(), job.forward()

    for _ in range(RUNS):
        torch.cuda.reset_peak_memory_stats()
        if mode == "forward":
            job.forward()
        elif mode == "backward":
            job.backward(out, given)
        else:
            job.full()
        peak(name)


def step():
    """Take an optimizer's step, with which a simulated job ends. The source has none."""
    layer = torch.nn.Linear(8, 8, device=kernels.CARD)
    optimizer = torch.optim.SGD(layer.parameters())
    layer(torch.randn(8, 8, device=kernels.CARD)).sum().backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", choices=sorted(kernels.KERNELS), required=True)
    parser.add_argument("--providers", nargs="+")
    args = parser.parse_args()
    kernel = kernels.KERNELS[args.kernel]
    providers = [each for each in kernel.providers if not args.providers or each in args.providers]
    for mode in kernel.modes:  # the source times everything before, so that libraries have their workspaces
        for provider in providers:
            measured(kernel.make(provider, kernel.sizes[0]), "full", f"warm-{mode}")
    for mode in kernel.modes:
        for provider in providers:
            for size in kernel.sizes:
                measured(kernel.make(provider, size), mode, f"{mode}-{provider}-{size}")
    step()


if __name__ == "__main__":
    main()
