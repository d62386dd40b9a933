# pip install torch==2.13.0 && pip install --no-deps openrlhf==0.8.5  # shows the fault: exit code 1
# pip install torch==2.9.1 && pip install --no-deps openrlhf==0.8.5  # does not: exit code 0
# python openrlhf_group.py
#
# OpenRLHF's own function for the group by which the actor sends its weights to vLLM; one process, without Ray, vLLM and GPU.
import importlib.util
import sys
from pathlib import Path

import torch

package = importlib.util.find_spec("openrlhf")
file = Path(package.submodule_search_locations[0]) / "utils" / "distributed_util.py"
spec = importlib.util.spec_from_file_location("distributed_util", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
wanted = {
    "backend": "gloo",
    "init_method": "tcp://127.0.0.1:29517",
    "world_size": 1,
    "rank": 0,
    "group_name": "openrlhf",
}
try:
    module.init_process_group(**wanted)
except TypeError as error:
    print(f"torch {torch.__version__}: {error}")
    sys.exit(1)
print(f"torch {torch.__version__}: the group is made")
