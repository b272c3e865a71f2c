"""Generates the page of all commands from the commands themselves, so that none is missing or out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from cli.main import app
from cli.setting_flags import FLAGS

COMMANDS = Path("docs/commands.md")

_TOP = """# Every command

<!-- Made by `make generate` from cli/. Change the commands there, not this page. -->

This page has each command with its options and examples; `tenon COMMAND --help` prints the same.
[operations.md](operations.md#which-command-answers-my-question) says which command answers which question, and
[how a command finds your cluster](operations.md#how-do-i-connect-the-tenon-command-to-my-cluster). `kubectl tenon ...`
is the plugin of kubectl with the same commands, and `tenon completion bash|zsh|fish` prints a script that completes
them.
"""

_EXIT_CODES = """
## Which exit codes are there?

| code | means |
|---|---|
| 0 | it is done, or nothing speaks against it |
| 1 | the command worked, and its answer is no (below); or its output cannot be written |
| 2 | it could not be done, or only in part: a sentence on standard error says why |
| 130 | Ctrl-C |

The answer is no if `doctor` finds a fault, if `sandbox status` or `sandbox worker status` is not ready, if nodes are
not gone within `--timeout`, if `why` or `history NAME` knows nothing, if `replay` finds a worse decision, if `takeover`
or `handback` went back, if `teardown` or `drain-node-group` left something, or if the demo does not see a step. Code 2
is for wrong arguments, unknown names, missing connections, manifests that `validate` or `convert` refuses, and nodes
that refuse.

Tables are as wide as the terminal. In a pipe or a file, no line is cut, and there are no colors. JSON and CSV only gain
fields. `--cluster` names the cluster of a command that asks Temporal; without it, CLUSTER_NAME does, or the sandbox in
this folder.
"""


def commands_page() -> str:
    """Return the page of all commands."""
    commands = list(_children(get_command(app)))
    sections = [_section(command, "tenon", name, 2) for name, command in commands]
    return _TOP + _index(commands) + _EXIT_CODES + "".join(sections)


def _children(command: Any) -> Iterator[tuple[str, Any]]:
    for name in command.list_commands(None):
        child = command.get_command(None, name)
        if child is not None:
            yield name, child


def _index(commands: list[tuple[str, Any]]) -> str:
    rows = [f"| [tenon {name}](#tenon-{name}) | {_cell(_purpose(command))} |\n" for name, command in commands]
    return "\n## Which commands are there?\n\n| command | purpose |\n|---|---|\n" + "".join(rows)


def _purpose(command: Any) -> str:
    """The first sentence of the help, as `tenon --help` has it."""
    return str(command.get_short_help_str(limit=200)).replace("<", "&lt;")


def _section(command: Any, parent: str, name: str, level: int) -> str:
    path = f"{parent} {name}"
    lines = [f"\n{'#' * level} {path}\n\n{_text(command.help or '')}\n"]
    lines.append(_parameters(command, path))
    lines.append(_examples(command))
    if isinstance(command, TyperGroup):
        lines += [_section(child, path, child_name, 3) for child_name, child in _children(command)]
    return "".join(lines)


def _text(text: str) -> str:
    """The help as Markdown: paragraphs of one line, with what Markdown would take for HTML escaped."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(paragraphs).replace("<", "&lt;")


def _parameters(command: Any, path: str) -> str:
    context = command.context_class(command, info_name=path)
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    own = [parameter for parameter in shown if FLAGS.keys().isdisjoint(parameter.opts)]
    records = filter(None, (parameter.get_help_record(context) for parameter in own))
    rows = [f"| `{_cell(names)}` | {_cell(text).replace('<', '&lt;')} |\n" for names, text in records]
    table = "\n| | |\n|---|---|\n" + "".join(rows) if rows else ""
    more = "\nAlso a flag for [each setting](all-settings.md).\n" if len(own) < len(shown) else ""
    return table + more


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _examples(command: Any) -> str:
    lines = re.findall(r"^  ( *\S.*)$", command.epilog or "", flags=re.MULTILINE)
    return "\n" + "".join(f"    {line}\n" for line in lines) if lines else ""
