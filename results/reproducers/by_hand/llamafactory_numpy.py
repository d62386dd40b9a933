# pip install llamafactory==0.9.3 pyarrow==26.0.1  # shows the fault: exit code 1
# pip install llamafactory==0.9.3 pyarrow==25.0.1  # does not: exit code 0
# python llamafactory_numpy.py
import importlib
import sys
from importlib.metadata import version

releases = ", ".join(f"{name} {version(name)}" for name in ("llamafactory", "pyarrow", "numpy"))
try:
    importlib.import_module("llamafactory.train.tuner")  # as its command line does
except ImportError as error:
    print(f"{releases}: ImportError: {error}")
    sys.exit(1)
print(f"{releases}: imports")
