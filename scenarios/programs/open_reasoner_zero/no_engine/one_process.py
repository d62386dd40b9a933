class CUDAIPCHandle:
    """In the place of a tensor's address for another process: the tensor itself."""

    def __init__(self, tensor):
        self._tensor = tensor

    @classmethod
    def from_tensor(cls, tensor):
        return cls(tensor)

    def rebuild(self):
        return self._tensor
