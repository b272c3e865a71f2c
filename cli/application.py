"""Creates the Typer application of each command, so that all commands take arguments and print help and errors alike.

Help is plain text and complete. Typer's frames truncate long flags, and leave out defaults in square brackets.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

HELP_FLAGS = ("-h", "--help")


class Command(TyperCommand):
    """A command that takes no empty argument: ``"$POOL"`` of a variable that is not set would mean all NodePools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse an empty one."""
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            name = parameter.name or ""
            source = ctx.get_parameter_source(name)
            if not isinstance(parameter, TyperArgument) or source is None or source.name != "COMMANDLINE":
                continue
            value = ctx.params.get(name)
            if not ctx.resilient_parsing and "" in (value if isinstance(value, list | tuple) else [value]):
                raise typer.BadParameter("it is empty.", ctx=ctx, param=parameter)
        return rest


class Group(TyperGroup):
    """A command with subcommands. Its help shows their first sentences in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of subcommands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.sentence(ctx, name)) for name in self.list_commands(ctx)])

    def sentence(self, ctx: Any, name: str) -> str:
        """Return what the list of subcommands says about one."""
        command = self.get_command(ctx, name)
        assert command is not None  # it is in the list
        return str(command.get_short_help_str(limit=1000))


def examples(*lines: str) -> str:
    """Return the end of a command's help: these command lines, as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class App(typer.Typer):
    """An application of which each command is a `Command`, unless it names another class."""

    def command(self, name: str | None = None, **options: Any) -> Any:
        """Register a command. ``options`` are those of `typer.Typer.command`."""
        return super().command(name, **{"cls": Command, **options})


def create_app(*, cls: type[Group] = Group, **options: Any) -> typer.Typer:
    """Return an application with plain help and ordinary tracebacks. ``options`` are those of `typer.Typer`."""
    return App(
        cls=cls,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": list(HELP_FLAGS)},
        **options,
    )
