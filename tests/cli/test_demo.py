"""What the demo says of the sandbox that it leaves running."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.demo import how_to_use
from cli.sandbox import app
from sandbox.layout import Layout


def settings_of(line: str) -> dict[str, str]:
    """The variables that the line exports."""
    words = shlex.split(line.partition("export ")[2])
    return dict(word.split("=", 1) for word in words)


def test_a_sandbox_in_another_folder_is_found_and_stopped_by_what_the_demo_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my sandbox"
    folder.mkdir()
    use, stop = how_to_use(Path("kubeconfig"), folder)
    monkeypatch.setenv("TENON_SANDBOX_DIR", settings_of(use)["TENON_SANDBOX_DIR"])
    assert Layout.at(None).root == folder
    monkeypatch.delenv("TENON_SANDBOX_DIR")
    command = shlex.split(stop.partition(": ")[2])
    assert command[:3] == ["tenon", "sandbox", "down"]
    stopped = CliRunner().invoke(app, command[2:])
    assert f"No sandbox runs in {folder}." in stopped.stdout, stopped.output


def test_a_sandbox_in_the_usual_folder_needs_no_name() -> None:
    use, stop = how_to_use(Path("kubeconfig"), None)
    assert settings_of(use).keys() == {"KUBECONFIG", "PATH"}
    assert stop == "To stop it: tenon sandbox down"
