"""What commands print into a file or a pipe."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from cli.console import TextConsole, indented, output_console, printable
from cli.main import app
from cli.markdown import print_markdown


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


FREE_TEXT = "asked by <ann>: *x*, _y_, **z**, 3 < 4 &lt; [a](b) ~~c~~ \\*"
PAGE = f"### NodeClaim a\n\n- Stage: **live**\n- Leaving: Drain: {FREE_TEXT}\n\n{FREE_TEXT}\n\n- `tenon node list` x"


def test_a_page_shows_free_text_as_it_is_and_the_markup_of_tenon() -> None:
    console = TextConsole(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    with console.capture() as printed:
        print_markdown(console, PAGE)
    lines = [line.strip() for line in printed.get().splitlines()]
    assert [line for line in lines if "NodeClaim a" in line]
    assert "• Stage: live" in lines
    assert f"• Leaving: Drain: {FREE_TEXT}" in lines
    assert FREE_TEXT in lines
    assert "• tenon node list x" in lines


STEERING = "a\x1b]0;title\x07\x1b[2K\x9b31mb\x00"


def test_a_text_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Reasons and messages are of other people, and a record is read where anyone may write into a log."""
    assert printable(f"{STEERING}\n\tc") == "a]0;title[2K31mb\n\tc"
    table = Table(box=None)
    table.add_column("why")
    table.add_row(Text(STEERING))
    output_console().print(table)
    output_console().print(STEERING, markup=False, highlight=False, style="red")
    assert capsys.readouterr().out.split() == ["why", "a]0;title[2K31mb", "a]0;title[2K31mb"]
    terminal = TextConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    with terminal.capture() as printed:
        terminal.print(Text(STEERING, style="red"))
    assert printed.get() == "\x1b[31ma]0;title[2K31mb\x1b[0m\n"
