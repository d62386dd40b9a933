"""A Ray cluster on this machine: a head that runs no cells, and nodes with CPUs that they only claim to have.

python -m tests.cluster.nodes FOLDER NODES CPUS     prints one JSON object a line, and reads commands: kill N, used, end

Each node has an address of its own (127.0.0.2, ...) and a folder of its own for environments (FOLDER/node-N), unless
DSREGRESS_ENVIRONMENTS names one for all. The cluster ends with the input. Whatever runs on the nodes has this process's
environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_OBJECTS_BYTES = 80 << 20


def main(folder: Path, nodes: int, cpus: int) -> None:
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_worker_niceness="0",  # else cells get what the machine's other work leaves
    )
    shared = os.environ.get("DSREGRESS_ENVIRONMENTS", "")
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": _OBJECTS_BYTES}
    # Nobody reads them, and they work as long as the cluster is there.
    unused = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    cluster = Cluster(initialize_head=True, head_node_args={**head, **unused})
    started = [
        cluster.add_node(
            num_cpus=cpus,
            object_store_memory=_OBJECTS_BYTES,
            node_ip_address=f"127.0.0.{number + 2}",
            env_vars={"DSREGRESS_ENVIRONMENTS": shared or str(folder / f"node-{number}")},
        )
        for number in range(nodes)
    ]
    _say({"address": cluster.address})
    for line in sys.stdin:
        command, *words = line.split()
        if command == "kill":
            cluster.remove_node(started[int(words[0])], allow_graceful=False)
            _say({"killed": int(words[0])})
        elif command == "used":
            ray.init(address=cluster.address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
            _say({"used": _used()})
        elif command == "end":
            break
    ray.shutdown()
    for node in [*cluster.worker_nodes]:  # they keep nothing, and take seconds to say good-bye
        cluster.remove_node(node, allow_graceful=False)
    cluster.shutdown()


def _used() -> dict[str, float]:
    """CPUs in use by address of the node."""
    import ray
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    return {
        node["NodeManagerAddress"]: node["Resources"]["CPU"] - free.get(node["NodeID"], {}).get("CPU", 0.0)
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU")
    }


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
