"""Train what a program trains in plain PyTorch, without DeepSpeed, to judge its numerics."""
