#!/bin/sh
# Adds requirements.txt to the environment, and leaves what that added under /added.
set -e
. /installer/settings.sh
mkdir /added
if [ -s /installer/requirements.txt ]; then
    touch /installer/before
    sleep 0.1 # a file system's clock ticks slower than that
    uv_pip install --no-deps --compile-bytecode --python /opt/stack/bin/python --requirements /installer/requirements.txt ||
        # A release whose setup imports torch finds none in an isolated build: build it in the environment itself.
        # What separates the two goes where uv prints: the builder does not keep the order of two streams.
        { echo "=== again, without isolation" >&2; uv_pip install --no-deps --compile-bytecode --no-build-isolation \
            --python /opt/stack/bin/python --requirements /installer/requirements.txt; }
    cd /
    find opt/stack ! -type d -cnewer /installer/before > /installer/added.txt
    tar -cf - -T /installer/added.txt | tar -xf - -C /added
fi
rm -rf "$UV_CACHE_DIR"
