"""What commands print into a file or a pipe."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.console import indented
from cli.main import app


@pytest.mark.parametrize("command", [("settings",), ("sandbox", "fault", "list")])
def test_a_table_in_a_pipe_is_not_wrapped_and_ends_no_line_with_spaces(command: tuple[str, ...]) -> None:
    lines = CliRunner().invoke(app, command, env={"CLUSTER_NAME": "web", "KUBECONFIG": "/missing"}).stdout.splitlines()
    rows = json.loads(CliRunner().invoke(app, [*command, "-o", "json"], env={"KUBECONFIG": "/missing"}).stdout)
    for row in rows["settings"] if isinstance(rows, dict) else rows:
        name, meaning = (row["name"], row["meaning"]) if "name" in row else (row["fault"], row["about"])
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert meaning in line
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_sentence_that_a_terminal_wraps_is_indented_in_all_its_lines() -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=True)
    with console.capture() as printed:
        console.print(indented("NodePool [gpu]: " + "no place " * 12))
    lines = printed.get().splitlines()
    assert len(lines) > 2
    assert all(line.startswith("  ") and not line.startswith("   ") for line in lines)
    assert lines[0].startswith("  NodePool [gpu]: no place")
