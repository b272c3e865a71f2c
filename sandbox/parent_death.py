"""Run a program that dies with its parent: ``python -I -S parent_death.py PARENT_PID PROGRAM ARGUMENT...``.

On Linux the kernel kills the program when the process that started it ends, however that ends. Elsewhere the program
just runs; what a killed supervisor leaves behind is then swept by the next `tenon sandbox up` or `down`.
Imports nothing of the project: it stands between each component and its start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def dying_with_parent(*program: str) -> list[str]:
    """The command line that runs ``program`` and ends it when this process ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *program]


def main(arguments: list[str]) -> None:
    """Tie this process to its parent, then become the program."""
    parent, program = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}")
        if os.getppid() != parent:  # it ended before the kernel knew of us
            sys.exit("the parent is gone")
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
