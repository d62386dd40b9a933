"""What releases do to the machine that they run on: more code of a package of `tests.packages.build`."""

from __future__ import annotations

#: At the end of a release: runs ``{spoil}`` once, in the first step of rank 0, in the folder of the run.
ONCE = """
import os, shutil, time

class Engine(Engine):
    def step(self):
        if self.rank == 0 and not hasattr(self, "spoiled"):
            self.spoiled = True
            {spoil}()
        return super().step()

def nest(folder):
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)

def nest_run():
    nest(".")

def nest_home():
    nest(os.environ["HOME"])

def remove_runs():
    shutil.rmtree("..", ignore_errors=True)

def fork_and_exit():
    if os.fork() == 0:
        os.setsid()
        os.closerange(3, 1024)  # as a daemon does
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            time.sleep(0.0005)
        os._exit(0)

def leave_a_fork():
    if os.fork() == 0:
        os.setsid()  # and keeps all files of its rank open, as no daemon does
        time.sleep(600)
        os._exit(0)

def leave_a_fork_and_die():
    leave_a_fork()
    os.kill(os.getpid(), 11)

def fill():
    with open("/tmp/filling", "wb") as file:
        while True:
            file.write(bytes(1 << 20))

def fork():
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
"""


def spoiling(spoil: str) -> str:
    """Return the code of a release that does ``spoil``, a function of `ONCE`."""
    return ONCE.replace("{spoil}", spoil)
