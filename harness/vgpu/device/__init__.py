"""The CUDA device that programs find: its functions, its figures, and its kernels."""
