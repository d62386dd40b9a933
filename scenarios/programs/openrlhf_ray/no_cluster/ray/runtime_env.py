class RuntimeEnv(dict):
    """Of the processes that Ray would start."""
