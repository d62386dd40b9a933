# pip install torch==2.13.0 datasets==5.2.0 accelerate==1.15.0 peft==0.21.2 transformers==5.24.0 requests rich trl==0.28.0  # shows the fault: exit code 1
# pip install torch==2.13.0 datasets==5.2.0 accelerate==1.15.0 peft==0.21.2 transformers==5.24.0 requests rich trl==0.29.0  # does not: exit code 0
# python trl_optional_imports.py
import sys

import transformers
import trl


def imported(name):
    """Import a trainer as `from trl import NAME` does; return how that ends."""
    try:
        getattr(trl, name)
    except AttributeError:
        return "does not exist"
    except (ImportError, RuntimeError) as error:
        return str(error.__cause__ or error).splitlines()[-1]
    return "imports"


ends = {name: imported(name) for name in ("SFTTrainer", "DPOTrainer", "GRPOTrainer")}
print(f"trl {trl.__version__}, transformers {transformers.__version__}:", "; ".join(f"{name} {end}" for name, end in ends.items()))
sys.exit(any(end not in ("imports", "does not exist") for end in ends.values()))
