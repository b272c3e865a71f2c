"""A Node that joined, as each step until its pods are bound finds it."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.nodeclaims import Clock
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.initialization import Learn, initialized_node
from tenon.messages.node_steps import InitializeResult, NodeInput
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, node

WANTED = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")


def joined(*taints: dict[str, str], **spec: object) -> World:
    world = World()
    world.kube.add(NODECLAIMS, claim(**spec))
    world.kube.add(NODES, node(*taints))
    return world


async def initialize(kube: Any, node_input: NodeInput, now: Clock, learn: Learn | None = None) -> InitializeResult:
    outcome = await initialized_node(kube, node_input, now, learn)
    return outcome if isinstance(outcome, InitializeResult) else InitializeResult(initialized=True)


async def at_once() -> None:
    """kube-scheduler does nothing in its moment."""


def planned(world: World, *entries: str) -> World:
    world.claim["metadata"]["annotations"]["tenon.sh/planned-pods"] = ",".join(entries)
    return world
