"""Completes the names of nodes, NodePools, NodeRollouts and pods, which a shell asks for at a press of the Tab key.

A shell has no place for an error, so there are no names if the cluster does not answer in time, or if the extra
`worker`, which has the Kubernetes client, is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import typer

from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODEROLLOUTS, PODS, Resource
from cli.context import resolve_if_known
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.structs import Object

WITHIN = 5.0
"""Seconds that the cluster has for its answer. `aws eks get-token` of a kubeconfig takes one or two of them. A command
that hangs holds up the shell for as long as the client lets it run."""


def node_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return NodeClaims, their Nodes and, once an id is begun, their instances; without those on the command line."""
    name = ctx.params.get("name") or []
    present = [name] if isinstance(name, str) else name
    names = _names(NODECLAIMS, _names_of_node)
    if not incomplete:
        names = [name for name in names if not name.startswith("i-")]
    return [name for name in names if name.startswith(incomplete) and name not in present]


def pool_names(incomplete: str) -> list[str]:
    """Return NodePools."""
    return [name for name in _names(NODEPOOLS, _own_name) if name.startswith(incomplete)]


def rollout_names(incomplete: str) -> list[str]:
    """Return NodeRollouts."""
    return [name for name in _names(NODEROLLOUTS, _own_name) if name.startswith(incomplete)]


def pod_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return pods: of the namespace before the slash, with it, or else of ``--namespace``."""
    namespace, slash, begun = incomplete.rpartition("/")
    names = _names(PODS, _own_name, namespace or ctx.params.get("namespace") or "default")
    return [f"{namespace}{slash}{name}" for name in names if name.startswith(begun)]


def _own_name(body: Object) -> Iterator[str]:
    yield body["metadata"]["name"]


def _names_of_node(body: Object) -> Iterator[str]:
    claim = ClaimRecord.of(body)
    yield from (claim.name, claim.node_name, claim.instance_id)


def _names(resource: Resource, names_of: Callable[[Object], Iterator[str]], namespace: str = "") -> list[str]:
    try:
        from activities.kubernetes.client import Kube
    except ImportError:
        return []
    if (context := resolve_if_known(None)) is not None:
        context.apply()

    async def bodies() -> Sequence[Object]:
        kube = await Kube.connect()
        try:
            return await kube.list(resource, namespace=namespace, limit=0, resource_version="0")
        finally:
            await kube.close()

    try:
        objects = asyncio.run(asyncio.wait_for(bodies(), WITHIN))
    except (TimeoutError, ApiError, ConfigError):
        return []
    return sorted(name for body in objects for name in names_of(body) if name)
