"""The component that runs temporal-server: ``python -m sandbox.temporal.server --folder FOLDER --postgresql PORT ...``.

It creates the databases and the namespace at the first start, as an administrator does with Temporal's own tools.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from sandbox.build import BuildError
from sandbox.certificates import write_private
from sandbox.parent_death import dying_with_parent
from sandbox.ports import LOOPBACK
from sandbox.temporal import NAMESPACE, namespaces, programs, readiness
from sandbox.temporal.configuration import DATABASES, PLUGIN, SERVICES, Listener, configuration, dynamic_config
from sandbox.temporal.postgresql import PASSWORD, USER
from sandbox.tools import MissingToolError
from tenon.errors import TenonError

CREATED = "created"
"""The file that says that the databases are complete."""
CONFIGURATION = "server.yaml"
DYNAMIC = "dynamic.yaml"


class SchemaError(TenonError):
    """The databases could not be created. The message is a sentence."""


def create_databases(folder: Path, port: int, password: str) -> None:
    """Create Temporal's databases, unless they are complete.

    Raises:
        SchemaError: Temporal's tool failed.
        BuildError: Temporal's tool could not be built.
        MissingToolError: there is no suitable Go.
    """
    marker = folder / CREATED
    if marker.exists():
        return
    where = ("--plugin", PLUGIN, "--endpoint", LOOPBACK, "--port", str(port), "--user", USER)
    tool = str(programs.ensure().schema_tool)
    for schema, database in DATABASES.items():
        for step in (
            ("drop-database", "--force"),  # a start that was killed may have left half of one
            ("create-database",),
            ("setup-schema", "--version", "0.0"),
            ("update-schema", "--schema-name", f"postgresql/v12/{schema}"),
        ):
            command = dying_with_parent(tool, *where, "--database", database, *step)
            answer = subprocess.run(
                command, env=os.environ | {"SQL_PASSWORD": password}, capture_output=True, text=True, check=False
            )
            if answer.returncode != 0:
                stderr = (answer.stderr or answer.stdout).strip()[-500:]
                raise SchemaError(f"Temporal's database {database} could not be created: {stderr}.")
    marker.touch()


async def run(folder: Path, postgresql: int, ready: int, ports: Iterator[int]) -> int:
    """Run the server until a signal or its end. Returns the exit status: 1 if it ended by itself."""
    password = (folder / PASSWORD).read_text()
    listeners = {service: Listener(next(ports), next(ports)) for service in SERVICES}
    dynamic = folder / DYNAMIC
    dynamic.write_text(dynamic_config())
    file = folder / CONFIGURATION
    write_private(file, yaml.safe_dump(configuration(listeners, postgresql, password, dynamic)).encode())
    await asyncio.to_thread(create_databases, folder, postgresql, password)
    command = (str(programs.ensure().server), "--config-file", str(file), "--allow-no-auth", "start")
    process = await asyncio.create_subprocess_exec(*dying_with_parent(*command))
    address = f"{LOOPBACK}:{listeners[SERVICES[0]].grpc}"

    async def prepare() -> None:
        await namespaces.until_served(address)
        await namespaces.create(address, NAMESPACE)

    return await readiness.run(process, prepare, ready, signal.SIGTERM)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.temporal.server", description="Run one Temporal server.")
    parser.add_argument("--folder", required=True, type=Path, help="the folder of PostgreSQL")
    parser.add_argument("--postgresql", required=True, type=int, help="the port of PostgreSQL")
    parser.add_argument("--ready", required=True, type=int)
    parser.add_argument("--ports", required=True, nargs=2 * len(SERVICES), type=int)
    options = parser.parse_args()
    try:
        return asyncio.run(run(options.folder, options.postgresql, options.ready, iter(options.ports)))
    except (OSError, BuildError, MissingToolError, SchemaError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
