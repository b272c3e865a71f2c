"""The ``tenon`` command where extras are not installed: `sandbox` as in the image of a worker, or `worker` too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.commands import COMMANDS
from cli.missing_extra import PACKAGES

pytestmark = pytest.mark.integration

OF_THE_SANDBOX = (*PACKAGES["sandbox"], "hypothesis", "pytest")
"""What only the extra `sandbox` and the dependency group of tests bring."""
OF_BOTH = (*PACKAGES["worker"], "botocore", "google", *OF_THE_SANDBOX)
PROGRAM = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
from cli.main import main
main()
"""
LOADING = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
from cli.commands import COMMANDS
from cli.main import Commands
for name in COMMANDS:
    Commands(name="tenon").get_command(None, name)
"""


def tenon(*arguments: str, absent: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that can import none of the packages."""
    command = [sys.executable, "-c", PROGRAM.format(absent=absent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("absent", [OF_THE_SANDBOX, OF_BOTH])
def test_the_help_names_every_command(absent: tuple[str, ...]) -> None:
    done = tenon("--help", absent=absent)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("absent", [OF_THE_SANDBOX, OF_BOTH])
def test_every_command_can_be_loaded(absent: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", LOADING.format(absent=absent)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "absent", "start"),
    [
        (("sandbox", "up", "--state", "x"), OF_THE_SANDBOX, "tenon sandbox needs the extra `sandbox`"),
        (("demo", "--help"), OF_BOTH, "tenon demo needs the extra `sandbox`"),
        (("worker", "--cluster-name", "orders"), OF_BOTH, "tenon worker needs the extra `worker`"),
        (("node", "show", "web-1"), OF_BOTH, "tenon node needs the extra `worker`"),
        (("simulate", "--live"), OF_BOTH, "Reading a cluster needs the extra `worker`"),
        (("explain", "node", "web-1"), OF_BOTH, "Reading a cluster needs the extra `worker`"),
    ],
)
def test_what_needs_an_extra_says_in_a_sentence_how_to_install_it(
    arguments: tuple[str, ...], absent: tuple[str, ...], start: str
) -> None:
    done = tenon(*arguments, absent=absent)
    extra = start.split("`")[1]
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"{start}, which is not installed here ({PACKAGES[extra][0]} is missing): "
        f"pip install 'tenon-autoscaler[{extra}]'\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "-f", "examples/simulate/nodepool.yaml", "-f", "examples/simulate/small-400.yaml"),
        ("validate", "-f", "examples/nodepool.yaml"),
        ("convert", "-f", "examples/seeds/000-first-look.yaml"),
        ("explain", "--help"),
    ],
)
def test_commands_about_files_need_no_extra(arguments: tuple[str, ...]) -> None:
    done = tenon(*arguments, absent=OF_BOTH)
    assert done.returncode == 0, done.stderr
    assert done.stdout
