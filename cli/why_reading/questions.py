"""Asks all sources about one object, in the order in which they learn its names from each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from cli.why_reading.kubernetes import KubernetesReader
from cli.why_reading.record import RecordReader
from cli.why_reading.temporal import TemporalReader
from tenon.kube.event_reasons import EventReason
from tenon.kube.node_names import whole_name
from tenon.record.entries import Entry
from tenon.record.why.mentions import (
    NodeNames,
    abbreviates_node,
    identities,
    mentions_node,
    mentions_pod,
    mentions_pool,
    whole_nodes_in,
)
from tenon.record.why.node import departure_of
from tenon.record.why.node_life import NodeSources
from tenon.record.why.pod import PodSources, claims_of
from tenon.record.why.pool import PoolSources

MAX_LIVES = 3
"""How many NodeClaims of a pod are asked for their state."""


class Sources:
    """The three sources."""

    def __init__(self, record: RecordReader, temporal: TemporalReader, kubernetes: KubernetesReader) -> None:
        self._record = record
        self._temporal = temporal
        self._kubernetes = kubernetes

    async def node(self, name: str) -> NodeSources:
        """What is known of the node that has this name, which may be that of its NodeClaim, Node or instance.

        Raises:
            AmbiguousNameError: it is the name of a Node without its domain, and several Nodes have it.
        """
        claim = await self._kubernetes.claim_named(name)
        entries = await self._entries(lambda entry: mentions_node(entry, {name}) or abbreviates_node(entry, name))
        if claim is None:
            name = await self._whole_name(name, entries)
        elif name not in (claim.name, claim.instance_id):
            name = claim.node_name
        recorded_nodes = identities(name, entries)
        claims = [claim.name] if claim is not None else await self._temporal.claims_named(name)
        claims += [identity.claim for identity in recorded_nodes]
        claims = list(dict.fromkeys(claims)) or [name]
        of_record = next((identity for identity in recorded_nodes if identity.claim == claims[0]), NodeNames())
        identity = NodeNames(claims[0], of_record.node, of_record.instance)
        if claim is not None:
            identity = NodeNames(claim.name, claim.node_name, claim.instance_id)
        events = [*await self._kubernetes.events("NodeClaim", identity.claim)]
        if identity.node:
            on_node = await self._kubernetes.events("Node", identity.node)
            # The NodeClaim has it too, and its text differs only in the kind of the object.
            events += [event for event in on_node if event.reason != EventReason.DISRUPTION_TERMINATING]
        sources = NodeSources(
            identity,
            entries=[entry for entry in entries if mentions_node(entry, {identity.claim})],
            life=await self._temporal.life(identity.claim),
            claim=claim,
            events=list({(event.reason, event.message): event for event in events}.values()),
            namesakes=claims[1:],
        )
        departure = departure_of(sources)
        entries = await self._entries(
            lambda entry: mentions_node(entry, {identity.claim}) or (departure is not None and departure.has(entry))
        )
        return replace(sources, entries=entries)

    async def _whole_name(self, name: str, entries: Sequence[Entry]) -> str:
        """Return the name of the Node that a name without its domain stands for, in the record or in Temporal."""
        if any(mentions_node(entry, {name}) for entry in entries):
            return name
        recorded_nodes = {node for entry in entries for node in whole_nodes_in(entry)}
        in_temporal = await self._temporal.whole_name(name)
        return whole_name(name, recorded_nodes | {in_temporal} - {name})

    async def pod(self, key: str) -> PodSources:
        """What is known of a pod."""
        namespace, _, name = key.partition("/")
        facts, uid = await self._kubernetes.pod(namespace, name)
        events = await self._kubernetes.events("Pod", name, namespace)
        claim = await self._kubernetes.claim_for(uid) if uid else ""
        entries = await self._entries(lambda entry: mentions_pod(entry, key))
        waits: list[str] = []
        lives = {}
        if facts is not None and not facts.node:
            waits = await self._temporal.waits(pod=key)
            claims = dict.fromkeys(filter(None, (claim, *claims_of(key, entries))))
            for claim_name in list(claims)[:MAX_LIVES]:
                if (life := await self._temporal.life(claim_name)) is not None:
                    lives[claim_name] = life
        return PodSources(
            key, facts, entries, events, claim, lives, waits, kubernetes_answered=self._kubernetes.is_complete
        )

    async def pool(self, name: str) -> PoolSources:
        """What is known of a NodePool."""
        exists, conditions = await self._kubernetes.pool(name)
        return PoolSources(
            name,
            exists=exists,
            kubernetes_answered=exists or self._kubernetes.is_complete,
            conditions=conditions,
            nodes=sum(claim.pool == name for claim in await self._kubernetes.claims()),
            entries=await self._entries(lambda entry: mentions_pool(entry, name)),
            events=await self._kubernetes.events("NodePool", name),
            waits=await self._temporal.waits(pool=name),
        )

    async def _entries(self, concerns: Callable[[Entry], bool]) -> list[Entry]:
        return await asyncio.to_thread(self._record.entries, concerns)
