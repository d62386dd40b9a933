class SamplingParams:
    def __init__(self, n=1, max_tokens=16, **settings):
        self.n, self.max_tokens = n, max_tokens


class StructuredOutputsParams:
    def __init__(self, **settings):
        pass


class GuidedDecodingParams(StructuredOutputsParams):
    """Its name up to vLLM 0.10."""
