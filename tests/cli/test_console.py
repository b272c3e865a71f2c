"""What commands print into a file or a pipe."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

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
