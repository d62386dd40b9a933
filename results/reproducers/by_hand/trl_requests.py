# pip install torch==2.13.0 datasets==5.2.0 accelerate==1.15.0 peft==0.21.2 transformers==5.24.0 rich trl==1.14.1  # shows the fault: exit code 1
# pip install torch==2.13.0 datasets==5.2.0 accelerate==1.15.0 peft==0.21.2 transformers==5.24.0 rich trl==1.14.2  # does not: exit code 0
# python trl_requests.py
import importlib.util
import sys
from importlib.metadata import version

import trl


def imported(name):
    """Import a trainer as `from trl import NAME` does; return how that ends."""
    try:
        getattr(trl, name)
    except (ImportError, RuntimeError) as error:
        return str(error.__cause__ or error).splitlines()[-1]
    return "imports"


ends = {name: imported(name) for name in ("SFTTrainer", "DPOTrainer", "GRPOTrainer")}
has = "with" if importlib.util.find_spec("requests") else "without"
print(f"trl {trl.__version__}, datasets {version('datasets')}, {has} requests:", "; ".join(f"{name} {end}" for name, end in ends.items()))
sys.exit(any(end != "imports" for end in ends.values()))
