class SamplingParams:
    def __init__(self, n=1, max_tokens=16, **settings):
        self.n, self.max_tokens = n, max_tokens


class GuidedDecodingParams:
    def __init__(self, **settings):
        pass
