"""The command ``tenon``, also as ``python -m tenon_autoscaler``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGES = Path(__file__).with_name("packages")
"""Where the wheel has Tenon's packages. In a checkout they are on the path already."""
START_PYTHON = ("demo", "playground", "sandbox", "worker")
"""The commands whose processes start more processes of Python, which must find the packages too."""


def main() -> None:
    """Run the command and exit the process with its status."""
    _find_packages()
    from cli.main import main as run

    run()


def complete_for_kubectl() -> None:
    """Answer kubectl, which calls ``kubectl_complete-tenon`` to complete a command line of its plugin."""
    _find_packages()
    from cli.main import complete_for_kubectl as complete

    complete()


def _find_packages() -> None:
    if PACKAGES.is_dir():
        sys.path.insert(0, str(PACKAGES))
        # Not for every command: a kubeconfig may run somebody else's program, which may be in Python.
        if sys.argv[1:2] and sys.argv[1] in START_PYTHON:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))


if __name__ == "__main__":
    main()
