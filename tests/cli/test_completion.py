"""Completion of command lines, as bash and kubectl ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
BIN = Path(sys.executable).parent
ENVIRONMENT = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent"}


def output_of(*argv: str) -> str:
    result = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_bash_completes_commands_and_options() -> None:
    script = "source <(tenon completion bash); COMP_WORDS=({words}); COMP_CWORD={place}; _tenon_completion tenon; "
    shown = 'echo "${COMPREPLY[@]}"'
    assert output_of("bash", "-c", script.format(words="tenon node f", place=2) + shown) == "force-drain\n"
    assert output_of("bash", "-c", script.format(words="tenon node drain --r", place=3) + shown) == "--reason\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_tenon(shell: str) -> None:
    assert "_TENON_COMPLETE=complete_" in output_of("tenon", "completion", shell)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["node", "f"], "force-drain\n:4\n"),
        (["node", "drain", "--tic"], "--ticket\n:4\n"),
        (["no such command", "x"], ":4\n"),
        (["it's", "x"], ":4\n"),
    ],
)
def test_kubectl_completes_its_plugin(words: list[str], answer: str) -> None:
    """Also a line with a word that a shell would quote."""
    assert output_of("kubectl_complete-tenon", *words) == answer


def test_kubectl_may_ask_for_all_commands() -> None:
    assert "simulate\n" in output_of("kubectl_complete-tenon", "")


def test_as_a_plugin_of_kubectl_its_help_says_kubectl_tenon() -> None:
    assert output_of("kubectl-tenon", "node", "--help").startswith("Usage: kubectl tenon node ")
