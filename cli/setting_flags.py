"""Defines a flag for every setting, generated from the settings themselves so that none is missing.

This module parses the flags instead of the command's parser, because that parser stops at the first fault and prints it
in a frame. An operator needs all faults, one sentence each. A boolean flag without a value means true, as in Karpenter.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli.application import HELP_FLAGS
from worker.runtime.child_processes import EXIT_UNUSABLE
from worker.settings import Settings, flag_of
from worker.settings.env_typos import nearest
from worker.settings.model import is_switch, text

FLAGS = {flag_of(name): name for name in Settings.model_fields}
FAULTS = "cli.setting_flags.faults"
"""Key in a command's context that holds the faults of its flags."""
LONGEST_WORD = 40
"""A longer default is a list, which help shows with spaces, because a narrow terminal's column is as wide."""

_FLAG = re.compile(r"--?[A-Za-z]")


class SettingsCommand(TyperCommand):
    """A command that accepts every setting as a flag, in addition to its own options. Setting values stay strings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Collect all unknown flags before any value is parsed."""
        own = {name: bool(getattr(parameter, "is_flag", False)) for parameter in self.params for name in parameter.opts}
        flag_names = {name: alone for name, alone in own.items() if name not in FLAGS} | dict.fromkeys(HELP_FLAGS, True)
        values, faults = split(args, flag_names)
        ctx.meta[FAULTS] = faults
        return super().parse_args(ctx, values)


def split(arguments: Sequence[str], own: dict[str, bool]) -> tuple[list[str], list[str]]:
    """Rewrite each setting as ``--name=value``, and return a sentence for each unknown flag.

    Args:
        arguments: the command line arguments.
        own: the command's other options, and whether each one takes no value.
    """
    values: list[str] = []
    faults: list[str] = []
    rest = deque(arguments)
    while rest:
        argument = rest.popleft()
        name, equals, _ = argument.partition("=")
        if name in own or (not name.startswith("--") and name[:2] in own and len(name) > 2):
            values.append(argument)
            if rest and not (equals or own.get(name, True)):
                values.append(rest.popleft())
        elif name not in FLAGS:
            faults.append(_unknown(name))
            if rest and name.startswith("-") and not equals and not _FLAG.match(rest[0]):
                rest.popleft()
        elif equals:
            values.append(argument)
        elif is_switch(FLAGS[name]):
            values.append(f"{name}=true")
        elif rest:
            values.append(f"{name}={rest.popleft()}")
        else:
            faults.append(f"The flag {name} needs a value: write {name}=VALUE.")
    return values, faults


def with_setting_flags(command: Callable[..., None], *, hidden: bool = False) -> Callable[..., None]:
    """Give a command an option for each setting. Its argument ``flags`` receives the given ones, by field name.

    ``hidden``: its help leaves them out, because only the help of `tenon worker` has them all.
    """
    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "flags"
    ]

    def run(**arguments: Any) -> None:
        keyword_only = {parameter.name: arguments.pop(parameter.name) for parameter in own}
        command(**keyword_only, flags={name: value for name, value in arguments.items() if value is not None})

    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, hidden=hidden))
        for name in Settings.model_fields
    ]
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__signature__ = inspect.Signature([*keyword_only, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*keyword_only, *options)}
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    return run


def refuse(sentences: str) -> typer.Exit:
    """Print why the settings are unusable, and return the exit to raise."""
    print(sentences, file=sys.stderr)
    return typer.Exit(EXIT_UNUSABLE)


def _option(name: str, *, hidden: bool) -> Any:
    field = Settings.model_fields[name]
    default = "" if field.is_required() else text(field.default)
    if len(default) > LONGEST_WORD:
        default = default.replace(",", ", ")  # so that a terminal breaks the line there
    shown = f" By default {default}." if default else ""
    metavar = "true|false" if is_switch(name) else "VALUE"
    help_ = f"{field.description}{shown}"
    option = typer.Option(flag_of(name), metavar=metavar, help=help_, show_default=False, hidden=hidden)
    return Annotated[str | None, option]


def _unknown(name: str) -> str:
    near = nearest(name.lstrip("-").replace("-", "_"))
    advice = f"did you mean {flag_of(near)}?" if near else "--help lists all."
    return f"Unknown flag {name}: {advice}" if name.startswith("-") else f"{name!r} is not a flag: {advice}"
