class Queue:
    """Of asynchronous training, which is not run here."""
