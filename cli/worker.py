"""``tenon worker``: the command that the Deployment runs."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from activities import loggers
from cli.application import create_app, examples
from cli.setting_flags import FAULTS, SettingsCommand, refuse, with_setting_flags
from worker import main
from worker.own_namespace import own_namespace
from worker.runtime.telemetry import logs
from worker.settings import SettingsError, load_all
from worker.settings.configmaps import read_in_child_process

app = create_app()
log = loggers.SETTINGS


@app.command(
    cls=SettingsCommand,
    epilog=examples(
        "CLUSTER_NAME=prod tenon worker --log-level=debug",
    ),
)
@with_setting_flags
def worker(ctx: typer.Context, flags: dict[str, Any]) -> None:
    """Run the worker: workflows and activities, cluster cache and planning. Every flag has an environment variable."""
    old = read_in_child_process(own_namespace())
    if isinstance(old, str):
        raise refuse(old)
    try:
        loaded = load_all(flags, os.environ, old.settings, ctx.meta[FAULTS])
        logs.set_up("main", loaded.settings)
    except SettingsError as error:
        raise refuse(str(error)) from None
    for note in (old.unread, *loaded.notes):
        if note:
            log.info(note)
    for warning in loaded.warnings:
        log.warning(warning)
    environment = {**os.environ, **loaded.settings.as_environment()}
    os.execve(sys.executable, [sys.executable, "-m", main.__name__], environment)
