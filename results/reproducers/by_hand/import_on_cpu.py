# pip install torch==2.13.0 deepspeed==0.14.0  # ends: exit code 1
# pip install torch==2.13.0 deepspeed==0.14.4  # imports: exit code 0
# python import_on_cpu.py
import os
import sys
from importlib.metadata import version

os.environ["DS_ACCELERATOR"] = "cpu"
try:
    import deepspeed  # noqa: F401
except (ImportError, ValueError) as error:
    print(f"deepspeed {version('deepspeed')}, torch {version('torch')}: {type(error).__name__}: {str(error).partition(' (/')[0]}")
    sys.exit(1)
print(f"deepspeed {version('deepspeed')}, torch {version('torch')}: imports")
