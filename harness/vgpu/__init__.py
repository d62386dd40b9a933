"""A virtual GPU: runs an unmodified CUDA training script as one rank of many, without a GPU, and counts what the card holds.

Needs torch and the standard library; importing the package itself imports neither torch nor any part of it.
"""
