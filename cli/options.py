"""Options that several commands have, so that they read alike everywhere."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Output = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
]
Catalog = Annotated[
    str | None, typer.Option("--catalog", metavar="FILE", help="Instance types to use instead of the built-in ones.")
]
Lease = Annotated[
    str, typer.Option("--lease", metavar="NAME", envvar="LEADER_ELECTION_NAME", help="Name of the workers' Lease.")
]
Ticket = Annotated[str, typer.Option("--ticket", metavar="KEY", help="Where the reason is written down.")]
