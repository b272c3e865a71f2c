"""`tenon sandbox fault`: injects named faults into the sandbox running in this folder, and undoes them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.application import create_app, examples
from cli.console import output_console
from cli.sandbox_output import Output, StateDir, fail
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import catalogue
from sandbox.faults.registry import NamedFault, Option

app = create_app(
    name="fault",
    no_args_is_help=True,
    help="Inject faults into the sandbox, and undo them. With a seed, random faults are repeatable.",
)
OutputFormat = Annotated[Output, typer.Option("-o", "--output", help="table or json.")]


@app.command(
    name="list",
    epilog=examples(
        "tenon sandbox fault list",
    ),
)
def list_faults(output: OutputFormat = Output.TABLE) -> None:
    """Show every fault and its options."""
    rows = [
        {
            "fault": fault.name,
            "about": fault.about,
            "options": {option.name: None if _required(option) else option.default for option in fault.options},
            "canBeUndone": fault.heal is not None,
        }
        for fault in catalogue.ALL
    ]
    if output is Output.JSON:
        print(json.dumps(rows, indent=2))
        return
    shown = [
        {
            "fault": fault.name,
            "what happens": fault.about,
            "options": " ".join(_spelled(option) for option in fault.options),
            "can be undone": "yes" if fault.heal else "no",
        }
        for fault in catalogue.ALL
    ]
    _table(shown)


@app.command(epilog=examples("tenon sandbox fault clear no-capacity", "tenon sandbox fault clear"))
def clear(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A fault; without it, all faults are undone.")] = "",
    state: StateDir = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Undo one fault, or all that can be undone."""
    try:
        healed = catalogue.clear(Sandbox.attach(state), name)
    except SandboxError as error:
        raise fail(error) from error
    if output is Output.JSON:
        print(json.dumps({"healed": healed}))
    else:
        output_console().print(f"undone: {name or 'all faults that can be undone'}", highlight=False)


def _command(fault: NamedFault) -> Callable[..., None]:
    """Build a command whose parameters are the fault's options."""

    def run(state: StateDir = None, output: Output = Output.TABLE, **options: Any) -> None:
        try:
            rows = catalogue.apply(Sandbox.attach(state), fault.name, **options)
        except SandboxError as error:
            raise fail(error) from error
        if output is Output.JSON:
            print(json.dumps({"fault": fault.name, "options": options, "did": rows}, indent=2))
            return
        output_console().print(fault.about, highlight=False, soft_wrap=True)
        _table(rows)
        if fault.heal is not None:
            output_console().print(f"`tenon sandbox fault clear {fault.name}` undoes it.", highlight=False)

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [
        inspect.Parameter(option.name, keyword, default=option.default, annotation=_annotated(option))
        for option in fault.options
    ]
    shared = [
        inspect.Parameter("state", keyword, default=None, annotation=StateDir),
        inspect.Parameter("output", keyword, default=Output.TABLE, annotation=OutputFormat),
    ]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    return run


def _example(fault: NamedFault) -> str:
    """A command line with what the fault must have."""
    required = (_spelled(option) for option in fault.options if _required(option))
    return " ".join(["tenon sandbox fault", fault.name, *required])


def _required(option: Option) -> bool:
    return option.default is inspect.Parameter.empty


def _annotated(option: Option) -> Any:
    """Required options become arguments; the others become flags."""
    kind = (
        typer.Argument(metavar=option.name.upper(), help=option.about)
        if _required(option)
        else typer.Option(help=option.about)
    )
    return Annotated[option.type, kind]


def _spelled(option: Option) -> str:
    return option.name.upper() if _required(option) else f"--{option.name.replace('_', '-')}"


def _table(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for heading in rows[0]:
        table.add_column(heading.upper(), overflow="fold", no_wrap=heading == "fault")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    output_console().print(table)


for _fault in catalogue.ALL:
    app.command(name=_fault.name, help=_fault.about, epilog=examples(_example(_fault)))(_command(_fault))
