"""What `--help` of each command prints on a narrow terminal: nothing is cut."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from cli.commands import COMMANDS
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
    assert "..." not in result.stdout.replace("[ARGS]...", "").replace("[NAME]...", "").replace("{ID}...", "")
    shown = [parameter for parameter in ALL[path].params if not getattr(parameter, "hidden", False)]
    flags = {flag for parameter in shown for flag in parameter.opts if flag.startswith("--")}
    assert [flag for flag in flags if flag not in result.stdout] == []
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_only_commands_that_read_standard_input_offer_it() -> None:
    """The playground reads its manifests more than once."""
    offered = {
        path: "standard input" in " ".join(CliRunner().invoke(app, [path, "-h"], env=NARROW).stdout.split())
        for path in ("simulate", "playground")
    }
    assert offered == {"simulate": True, "playground": False}
    refused = CliRunner().invoke(app, ["playground", "-f", "-"], env=NARROW)
    assert refused.exit_code == 2


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    commands_help = {path[0]: command.get_short_help_str(limit=1000) for path, command in ALL.items() if len(path) == 1}
    assert commands_help == {name: command.sentence for name, command in COMMANDS.items()}


LEAVES = [path for path, command in ALL.items() if not isinstance(command, TyperGroup)]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_help_ends_with_examples_that_the_command_would_take(path: tuple[str, ...]) -> None:
    """Each has what the command requires and values that it takes, so that a copy of it is no usage error."""
    printed = CliRunner().invoke(app, [*path, "-h"], env=NARROW).stdout
    _, _, end = printed.partition("Examples:\n")
    lines = [line.strip() for line in end.splitlines()]
    assert lines
    own = [line for line in lines if " ".join(("tenon", *path)) in line]
    assert own, "an example of the command itself"
    for line in own:
        stages = line.rpartition(" -- ")[2].split(" | ")
        stage = next(stage for stage in stages if "tenon " in stage.partition("#")[0])  # the others feed or read it
        words = shlex.split(stage.partition("tenon ")[2].partition(" > ")[0].rstrip(")"), comments=True)
        command, rest = app_command_of(words)
        options = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        flags = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
        assert flags <= options, f"{line}: {flags - options}"
        command.make_context(line, rest)


def app_command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that a line calls, and the words after it."""
    depth = 0
    while tuple(words[: depth + 1]) in ALL and depth < len(words):
        depth += 1
    return ALL[tuple(words[:depth])], words[depth:]


def test_doctor_shows_its_own_options_and_takes_those_of_the_worker() -> None:
    shown = CliRunner().invoke(app, ["doctor", "-h"], env=NARROW).stdout
    assert "--batch-idle-duration" not in shown
    assert "every flag of `tenon worker`" in " ".join(shown.split())
    assert {"--batch-idle-duration"} <= {flag for parameter in ALL["doctor",].params for flag in parameter.opts}


def test_a_switch_of_the_worker_says_that_it_is_true_or_false() -> None:
    shown = CliRunner().invoke(app, ["worker", "-h"], env=NARROW).stdout
    assert "--isolated-vpc true|false" in shown


def test_a_flag_states_the_variable_that_sets_its_default() -> None:
    result = CliRunner().invoke(app, ["sandbox", "up", "--help"], env=NARROW)
    assert "[default: $TENON_SANDBOX_DIR or" in result.stdout


def test_the_version_is_that_of_the_package() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"tenon {version(DISTRIBUTION)}\n")
