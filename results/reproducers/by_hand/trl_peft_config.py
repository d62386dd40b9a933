# pip install torch==2.13.0 transformers==4.57.6 trl==1.10.0 peft==0.16.0  # shows the fault: exit code 1
# python trl_peft_config.py
#
# The configuration of adapters that TRL's commands make of --use_peft.
import sys

import peft
import trl
from trl import ModelConfig, get_peft_config

try:
    get_peft_config(ModelConfig(use_peft=True))
    said = "is made"
except TypeError as error:
    said = f"{type(error).__name__}: {error}"
print(f"trl {trl.__version__}, peft {peft.__version__}: {said}")
sys.exit(said != "is made")
