"""What `--help` of each command prints on a narrow terminal: nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app
from cli.missing_extra import DISTRIBUTION

NARROW = {"COLUMNS": "80"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name in command.list_commands(None):  # type: ignore[arg-type]
            yield from commands(command.get_command(None, name), (*path, name))  # type: ignore[arg-type]


ALL = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_names_every_flag_and_cuts_nothing(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "-h"], env=NARROW)
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert "..." not in result.stdout.replace("[ARGS]...", "")
    flags = {flag for parameter in ALL[path].params for flag in parameter.opts if flag.startswith("--")}
    assert [flag for flag in flags if flag not in result.stdout] == []
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_flag_states_the_variable_that_sets_its_default() -> None:
    result = CliRunner().invoke(app, ["sandbox", "up", "--help"], env=NARROW)
    assert "[default: $TENON_SANDBOX_DIR or" in result.stdout


def test_the_version_is_that_of_the_package() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"tenon {version(DISTRIBUTION)}\n")
