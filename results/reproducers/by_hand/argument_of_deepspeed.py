# pip install torch==2.13.0 transformers==4.53.3 accelerate==1.15.0  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==4.54.0 accelerate==1.15.0  # does not: exit code 0
# python argument_of_deepspeed.py
import sys

import transformers
from transformers import HfArgumentParser, Trainer, TrainingArguments  # noqa: F401 (importing Trainer is what matters)

try:
    read = HfArgumentParser(TrainingArguments).parse_args(["--output_dir", "out", "--deepspeed", "zero3.json"])
except SystemExit:
    print(f"transformers {transformers.__version__}: refused")
    sys.exit(1)
print(f"transformers {transformers.__version__}: --deepspeed {read.deepspeed}")
