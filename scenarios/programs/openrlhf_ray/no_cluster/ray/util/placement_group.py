import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: F401  callers import it from here


class PlacementGroup:
    def __init__(self, bundles):
        self.bundles = bundles

    def ready(self):
        return ray.put(self)


def placement_group(bundles, strategy="PACK", **settings):
    return PlacementGroup(bundles)
