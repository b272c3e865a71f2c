"""Which Temporal the sandbox runs: the dev server, or the server that users run, on PostgreSQL.

The dev server is one process with SQLite and starts in a second. `temporal-server` with PostgreSQL is what users run
themselves: services that find one another, and a database that can be away. Two components run it: `postgresql` and
`server`.
"""

from __future__ import annotations

import os
from enum import StrEnum

from tenon.errors import TenonError

VARIABLE = "TENON_SANDBOX_TEMPORAL"
COMPONENT = "temporal"
DATABASE_COMPONENT = "postgresql"
NAMESPACE = "default"
RETENTION_HOURS = 72
"""How long closed workflows stay readable. It is what `temporal operator namespace create` sets."""
DYNAMIC_CONFIG = (
    "frontend.WorkflowTimeSkippingEnabled=true",
    # All attributes are set at the start. Without this, Temporal reads them from the database for each workflow.
    "system.forceSearchAttributesCacheRefreshOnRead=false",
    # Partitions spread a queue over servers and poll one another, but here is only one server.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)


class TemporalKind(StrEnum):
    """The choices."""

    DEV = "dev"
    POSTGRESQL = "postgresql"


class UnknownTemporalError(TenonError):
    """There is no such choice. The message is a sentence without a period."""


def chosen() -> TemporalKind:
    """The choice of the environment, or the dev server.

    Raises:
        UnknownTemporalError: the environment names no choice.
    """
    name = os.environ.get(VARIABLE) or TemporalKind.DEV
    try:
        return TemporalKind(name)
    except ValueError:
        choices = " or ".join(TemporalKind)
        raise UnknownTemporalError(f"{VARIABLE} is {name}: set {choices}, or leave it out") from None
