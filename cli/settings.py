"""``tenon settings``: shows the settings that a worker started here would use, and their sources."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from activities.kubernetes.errors import ApiError
from cli.application import create_app, examples
from cli.console import output_console
from cli.options import Output
from cli.setting_flags import FAULTS, SettingsCommand, refuse, with_setting_flags
from tenon.provisioning.gates import AWS_GATES, MEANINGS
from worker.own_namespace import own_namespace
from worker.runtime.child_processes import EXIT_UNUSABLE
from worker.settings import Loaded, Settings, SettingsError, flag_of, load_all
from worker.settings.configmaps import ConfigMapSettings, read_cluster
from worker.settings.effects import gate_values, why_none
from worker.settings.loading import gather
from worker.settings.model import text

app = create_app()

GATES_BELOW = ("FEATURE_GATES", "AWS_FEATURE_GATES")
"""Settings that are shown in a table of their own."""
UNNAMED = "unnamed"
"""Placeholder for a missing cluster name, so that the other settings can still be shown."""

Row = dict[str, Any]


@app.command(
    cls=SettingsCommand,
    epilog=examples(
        "tenon settings",
        "BATCH_IDLE_DURATION=5s tenon settings --log-level=debug",
    ),
)
@with_setting_flags
def settings(
    ctx: typer.Context,
    flags: dict[str, Any],
    output: Output = "table",
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="The cluster whose old ConfigMaps to read.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="The worker's namespace.")] = None,
) -> None:
    """Show a worker's settings for this environment and these flags, and where each comes from."""
    where = namespace or own_namespace()
    old = asyncio.run(_read_config_maps(where, kubeconfig))
    has_cluster_name = "cluster_name" in gather(flags, os.environ, old.settings)
    sources = flags if has_cluster_name else {**flags, "cluster_name": UNNAMED}
    try:
        loaded = load_all(sources, os.environ, old.settings, ctx.meta[FAULTS])
    except SettingsError as error:
        raise refuse(str(error)) from None
    document = {
        "settings": [
            _setting(loaded, name, has_cluster_name=has_cluster_name or name != "cluster_name")
            for name in Settings.model_fields
        ],
        "featureGates": _gates(loaded),
        "configMaps": {"namespace": where, "found": list(old.names), "unread": old.unread},
        "notes": list(loaded.notes),
        "warnings": list(loaded.warnings),
    }
    if output == "json":
        print(json.dumps(document, indent=2))
    else:
        _show(document)
    if not has_cluster_name:
        print("CLUSTER_NAME is required: set it in the environment or with --cluster-name.", file=sys.stderr)
        raise typer.Exit(EXIT_UNUSABLE)


async def _read_config_maps(namespace: str, kubeconfig: str | None) -> ConfigMapSettings:
    try:
        return await read_cluster(namespace, kubeconfig)
    except ApiError as error:
        return ConfigMapSettings(unread=f"The ConfigMaps of earlier versions are not read: {str(error).rstrip('.')}.")


def _setting(loaded: Loaded, name: str, *, has_cluster_name: bool) -> Row:
    field = Settings.model_fields[name]
    return {
        "name": name.upper(),
        "flag": flag_of(name),
        "value": text(getattr(loaded.settings, name)) if has_cluster_name else None,
        "source": loaded.sources[name] if has_cluster_name else None,
        "default": None if field.is_required() else text(field.default),
        "meaning": field.description,
        "withoutEffect": why_none(name) or None,
    }


def _gates(loaded: Loaded) -> list[Row]:
    return [
        {
            "name": name,
            "on": on,
            "source": loaded.sources["aws_feature_gates" if name in AWS_GATES else "feature_gates"]
            if name in loaded.named_gates
            else "default",
            "meaning": MEANINGS[name],
            "withoutEffect": why_none(name) or None,
        }
        for name, on in gate_values(loaded.settings).items()
    ]


def _show(document: dict[str, Any]) -> None:
    console = output_console()
    values = _table("Settings", "setting", "value", "from", "meaning")
    for row in document["settings"]:
        in_words = {**row, "value": "see below"} if row["name"] in GATES_BELOW else row
        values.add_row(escape(row["name"]), *_value(in_words), _meaning(row))
    console.print(values)
    gates = _table("Feature gates", "gate", "on", "from", "meaning")
    for row in document["featureGates"]:
        gates.add_row(escape(row["name"]), *_value({**row, "value": str(row["on"]).lower()}), _meaning(row))
    console.print(gates)
    maps = document["configMaps"]
    listed = ", ".join(maps["found"]) or "there are none"
    console.print(
        escape(maps["unread"] or f"ConfigMaps of earlier versions in the namespace {maps['namespace']}: {listed}."),
        highlight=False,
    )
    for note in document["notes"]:
        console.print(escape(note), highlight=False)
    for warning in document["warnings"]:
        console.print(f"[yellow]{escape(warning)}[/yellow]", highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns[:-1]:
        table.add_column(name, overflow="fold")
    table.add_column(columns[-1], ratio=1)
    return table


def _value(row: Row) -> tuple[str, str]:
    if row["value"] is None:
        return "[red]missing[/red]", ""
    shown = escape(row["value"] or '""')
    return (shown, row["source"]) if row["source"] == "default" else (f"[bold]{shown}[/bold]", row["source"])


def _meaning(row: Row) -> str:
    why = f" [dim]No effect in this version: {escape(row['withoutEffect'])}.[/dim]" if row["withoutEffect"] else ""
    return f"{escape(row['meaning'])}{why}"
