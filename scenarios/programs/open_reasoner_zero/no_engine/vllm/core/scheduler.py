class Scheduler:
    def __init__(self, *settings):
        pass
