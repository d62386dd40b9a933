class PlacementGroupSchedulingStrategy:
    def __init__(self, **settings):
        pass
