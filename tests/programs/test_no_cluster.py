"""What stands in for Ray in the reported systems' programs: each rank is the driver, and of each group its own actor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.paths import ROOT

NO_CLUSTER = ROOT / "scenarios" / "programs" / "openrlhf_ray" / "no_cluster"

DRIVER = """
import asyncio, ray
from ray.runtime_env import RuntimeEnv
from ray.util.placement_group import PlacementGroupSchedulingStrategy

class OneOfSeveral:
    def __init__(self, world_size, rank, local_rank, master_addr, master_port):
        self.answer = (rank, master_addr, master_port)
    def who(self):
        return self.answer

@ray.remote(num_gpus=1)
class Actor(OneOfSeveral):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

async def main():
    ray.init(runtime_env=RuntimeEnv(env_vars={}))
    actors = [Actor.options(scheduling_strategy=PlacementGroupSchedulingStrategy()).remote(3, rank, 0, None, None)
              for rank in range(3)]

    async def ask(actor):
        return await actor.who.remote()

    print(await asyncio.gather(*map(ask, actors)))

asyncio.run(main())
"""


@pytest.mark.parametrize("rank", [0, 2])
def test_an_asynchronous_driver_awaits_each_actor_of_a_group_and_gets_what_its_own_rank_answers(rank: int) -> None:
    of_a_rank = {"RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "PYTHONPATH": str(NO_CLUSTER)}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], env={**os.environ, **of_a_rank}, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == str([(rank, "127.0.0.1", "29500")] * 3), done.stderr
