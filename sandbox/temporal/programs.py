"""The programs of Temporal on PostgreSQL: `temporal-server` from its Go module, and Debian's PostgreSQL.

The server is built on demand, once for all checkouts. PostgreSQL is not installed for the user: where it is missing,
one sentence says so.
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.go_tool import GoTool
from sandbox.progress import OnProgress, silent

SOURCE = Path(__file__).parent.parent / "temporaltools"
SERVER = GoTool(
    name="temporal-server",
    source=SOURCE,
    code="tools.go",
    package="go.temporal.io/server/cmd/server",
    duration="about 9 minutes on two cores",
)
SCHEMA_TOOL = GoTool(
    name="temporal-sql-tool",
    source=SOURCE,
    code="tools.go",
    package="go.temporal.io/server/cmd/tools/sql",
    duration="seconds after the server",
)
DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian keeps each version of PostgreSQL, outside of PATH."""
USERS = ("postgres", "nobody")
"""Who runs PostgreSQL for root: the first that exists."""


@dataclass(frozen=True)
class TemporalPrograms:
    """Where the programs are."""

    server: Path
    schema_tool: Path


def ensure(on_progress: OnProgress = silent) -> TemporalPrograms:
    """Return the programs that are built from Go. Builds them if necessary.

    Raises:
        BuildError: a build failed.
        MissingToolError: there is no suitable Go.
    """
    return TemporalPrograms(SERVER.ensure(on_progress), SCHEMA_TOOL.ensure(on_progress))


def unable() -> str:
    """Why this machine cannot run Temporal on PostgreSQL, in a sentence; empty if it can."""
    if postgresql() is None:
        return "Temporal on PostgreSQL needs PostgreSQL: run `apt-get install postgresql`."
    if os.geteuid() != 0:
        return ""
    if sys.platform != "linux":
        return "PostgreSQL does not run as root: run this command as another user."
    if user() is None:
        return f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}: add one."
    return ""


def postgresql() -> Path | None:
    """The folder with PostgreSQL's programs: the newest version of Debian, or else the one on PATH."""
    versions = [folder.parent for folder in DEBIAN.glob("*/bin/initdb") if folder.parent.parent.name.isdecimal()]
    if versions:
        return max(versions, key=lambda folder: int(folder.parent.name))
    result = shutil.which("initdb")
    return Path(result).resolve().parent if result else None


def user() -> pwd.struct_passwd | None:
    """The user that runs PostgreSQL for root. None if there is none."""
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((entries[name] for name in USERS if name in entries), None)
