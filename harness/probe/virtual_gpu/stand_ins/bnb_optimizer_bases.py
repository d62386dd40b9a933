"""``bitsandbytes.optim.optimizer``: what optimizers of other packages are made of."""

from harness.probe.virtual_gpu.stand_ins.bnb_optimizers import GlobalOptimManager, Optimizer1State, Optimizer2State

__all__ = ["GlobalOptimManager", "Optimizer1State", "Optimizer2State"]
