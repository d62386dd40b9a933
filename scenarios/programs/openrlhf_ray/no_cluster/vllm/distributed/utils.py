class StatelessProcessGroup:
    @classmethod
    def create(cls, host, port, rank, world_size, **settings):
        return cls()
