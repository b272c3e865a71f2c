"""Completion of command lines, as bash and kubectl ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fleet_api import CLAIMS, NODES, PODS, serving_fleet, varied_fleet

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


def test_names_come_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has three: of its NodeClaim, its Node, and its instance, once that is begun."""
    monkeypatch.chdir(tmp_path)
    fleet = varied_fleet()
    node = str(fleet.objects[NODES][0]["metadata"]["name"])
    fleet.objects[CLAIMS][0]["status"]["nodeName"] = node
    fleet.objects["/api/v1/namespaces/shop/pods"] = fleet.objects[PODS]
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setitem(ENVIRONMENT, "KUBECONFIG", str(kubeconfig))
        assert answer("node", "show", "web-0000") == [f"web-{number:05x}" for number in (1, 2, 3, 4, 5, 10)]
        assert answer("node", "drain", "web-00001", "web-00001") == []  # it is on the line already
        assert answer("node", "show", node) == [node]
        assert answer("node", "show", "i-00000000000000001") == ["i-00000000000000001"]
        assert [name for name in answer("why", "") if name.startswith("i-")] == []
        assert answer("explain", "nodepool", "b") == ["batch"]
        assert answer("node", "drain", "--pool", "w") == ["web"]
        assert answer("explain", "pod", "shop/report") == ["shop/report-0"]


def test_there_are_no_names_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer("node", "show", "") == []


def answer(*words: str) -> list[str]:
    """The candidates for the last word."""
    return output_of("kubectl_complete-tenon", *words).splitlines()[:-1]
