class SamplingParams:
    def __init__(self, n=1, max_tokens=16, logprobs=None, **settings):
        self.n, self.max_tokens, self.logprobs = n, max_tokens, logprobs
        vars(self).update(settings)
