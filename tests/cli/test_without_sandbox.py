"""The ``tenon`` command where the extra `sandbox` is not installed, as in the image of a worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.main import COMMANDS

pytestmark = pytest.mark.integration

ABSENT = ("sandbox", "flask", "flask_cors", "hypothesis", "jsonpath_ng", "moto", "psutil", "pytest", "werkzeug")
"""What only the extra `sandbox` and the dependency group of tests bring."""
PROGRAM = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
from cli.main import main
main()
"""


def tenon(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that can import none of them."""
    command = [sys.executable, "-c", PROGRAM.format(absent=ABSENT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_help_names_every_command() -> None:
    """It loads the module of each of them."""
    done = tenon("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("arguments", [("sandbox", "up", "--state", "x"), ("demo", "--help")])
def test_a_command_of_the_sandbox_says_in_a_sentence_what_is_missing(arguments: tuple[str, ...]) -> None:
    done = tenon(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tenon {arguments[0]} needs the extra `sandbox`, which is not installed here (sandbox is missing): "
        "clone Tenon's repository and run `make setup` there, or `pip install '.[sandbox]'`.\n"
    )
