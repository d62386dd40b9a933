"""``bitsandbytes.optim.optimizer``: the base classes of other packages' optimizers."""

from vgpu.stand_ins.bnb_optimizers import GlobalOptimManager, Optimizer1State, Optimizer2State

__all__ = ["GlobalOptimManager", "Optimizer1State", "Optimizer2State"]
