import ray


class PlacementGroup:
    def __init__(self, bundles):
        self.bundles = bundles

    def ready(self):
        return ray.put(self)


def placement_group(bundles, strategy="PACK", **settings):
    return PlacementGroup(bundles)
