"""A model of PyTorch's CUDA caching allocator."""
