#!/bin/sh
# Installs requirements.txt, which is complete, into a new virtual environment. Argument: the interpreter.
set -e
. /installer/settings.sh
/installer/uv venv --quiet --no-project --no-python-downloads --python "$1" /opt/stack
uv_pip sync --compile-bytecode --python /opt/stack/bin/python /installer/requirements.txt
rm -rf "$UV_CACHE_DIR"
