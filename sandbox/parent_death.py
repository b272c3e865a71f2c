"""Run a program that dies with its parent: ``python -I -S parent_death.py PARENT_PID PROGRAM ARGUMENT...``.

On Linux the kernel kills the program when its parent process ends for any reason. On other systems the program just
runs; the next `tenon sandbox up` or `down` removes what a killed supervisor left behind. This module imports nothing of
the project, because it runs before each component starts.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def dying_with_parent(*program: str) -> list[str]:
    """The command line that runs ``program`` and kills it when this process ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *program]


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends. Exits if the parent has ended already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}")
        if os.getppid() != parent:  # it ended before prctl took effect
            sys.exit("the parent is gone")


def main(arguments: list[str]) -> None:
    """Tie this process to its parent, then replace it with the program."""
    parent, program = int(arguments[0]), arguments[1:]
    die_with(parent)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
