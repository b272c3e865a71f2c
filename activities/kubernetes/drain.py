"""The step "drain node": evict wave after wave until the pods are gone, and say by name what holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from activities import metrics
from activities.kubernetes.bounded import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachable
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.nodeclaims import Clock, Fact, read_claim, set_facts
from activities.kubernetes.nodes import find_node, pods_on
from activities.kubernetes.resources import PDBS, PODS
from activities.kubernetes.volumes import Heartbeat, Sleep, attached_volumes
from tenon.apis.nodeclaim import DRAINED
from tenon.lifecycle import budgets, pods
from tenon.lifecycle import drain as decide
from tenon.lifecycle.drain import Kind
from tenon.lifecycle.messages import DrainInput, DrainResult

Object = Mapping[str, Any]

POLL_SECONDS = 1.0
AT_ONCE = 20
"""Requests in flight for one node."""
SLOWEST_RETRY_SECONDS = 10
"""A refused eviction is asked again after 1, 2, 4 ... seconds, at most this."""
MAX_SENTENCES = 10


async def drain(
    kube: Kube,
    recorder: EventRecorder,
    wanted: DrainInput,
    now: Clock,
    heartbeat: Heartbeat,
    sleep: Sleep = asyncio.sleep,
) -> DrainResult:
    """Empty the node of its pods, or report what is left once ``budget_seconds`` have passed."""
    claim = await read_claim(kube, wanted.claim)
    node = (await find_node(kube, wanted, claim)).node
    if node is None:
        await set_facts(kube, wanted.claim, [Fact(DRAINED, "True")], now)
        return DrainResult(drained=True)
    name = node["metadata"]["name"]
    until = now() + timedelta(seconds=wanted.budget_seconds)
    drainer = _Drainer(kube, recorder, node, wanted)
    told = False
    while True:
        found = await pods_on(kube, name)
        waited = decide.awaited(found, now())
        heartbeat(len(waited))
        if not waited:
            await set_facts(kube, wanted.claim, [Fact(DRAINED, "True")], now)
            attached = await attached_volumes(kube, name, found, now())
            return DrainResult(drained=True, evicted=drainer.evicted, volumes_attached=len(attached))
        await drainer.act(waited, now())
        if not told:
            text = f"{len(waited)} pods are left on Node {name}"
            await set_facts(kube, wanted.claim, [Fact(DRAINED, "Unknown", "Draining", text)], now)
            told = True
        left = (until - now()).total_seconds()
        if left <= 0:
            return DrainResult(
                evicted=drainer.evicted, remaining=len(waited), blocked=drainer.sentences(waited)[:MAX_SENTENCES]
            )
        await sleep(min(POLL_SECONDS, left))


_EVICTION_CODES = {"evicted": "200", "gone": "404", "blocked": "429", "error": "500"}
"""The answers of the Eviction API as its metric counts them."""


class _Drainer:
    """What one drain remembers between its rounds: refusals, when to ask again, the budgets that it read."""

    def __init__(self, kube: Kube, recorder: EventRecorder, node: Object, wanted: DrainInput) -> None:
        self.evicted = 0
        self._kube = kube
        self._recorder = recorder
        self._node = node
        self._wanted = wanted
        self._held: dict[str, str] = {}
        self._refusals: dict[str, int] = {}
        self._retry_at: dict[str, datetime] = {}
        self._budgets: dict[str, list[dict[str, Any]]] = {}

    def sentences(self, waited: Sequence[Object]) -> list[str]:
        """Why pods that are left are held, in the order of their names."""
        return [self._held[uid] for uid in map(pods.uid, waited) if uid in self._held]

    async def act(self, waited: Sequence[Object], now: datetime) -> None:
        """One round over the awaited pods."""
        turn = decide.current_wave(waited)
        known = set(self._held)

        async def one(pod: Object) -> None:
            await self._one(pod, now, turn=decide.wave(pod) == turn)

        await bounded(waited, AT_ONCE, one)
        news = [self._held[uid] for uid in map(pods.uid, waited) if uid in self._held and uid not in known]
        if news:
            more = f"; and {len(news) - 3} more" if len(news) > 3 else ""
            text = "; ".join(news[:3]) + more
            await self._recorder.publish(self._node, "FailedDraining", text, "Warning")

    async def _one(self, pod: Object, now: datetime, *, turn: bool) -> None:
        uid = pods.uid(pod)
        action = decide.decide(pod, now, turn=turn, force_at=self._wanted.force_at, force=self._wanted.force)
        if action.kind is Kind.EVICT and uid in self._retry_at and now < self._retry_at[uid]:
            return
        self._held.pop(uid, None)
        try:
            if action.kind is Kind.EVICT:
                await self._evict(pod, now)
            elif action.kind is Kind.DELETE:
                await self._delete(pod, action.grace_seconds)
            elif action.why:
                self._held[uid] = action.why
        except ApiUnreachable:
            raise
        except ApiError as error:  # an admission policy that guards one pod must not stop the others
            self._refused(uid, now, f"pod {pods.key(pod)}: {error.message}")

    async def _evict(self, pod: Object, now: datetime) -> None:
        metadata, uid = pod["metadata"], pods.uid(pod)
        answer = await self._kube.evict(metadata["namespace"], metadata["name"], uid=uid)
        metrics.POD_EVICTIONS.labels(_EVICTION_CODES[answer.outcome]).inc()
        if answer.outcome == "evicted":
            self.evicted += 1
            await self._recorder.publish(
                pod, "Evicted", f"evicted from Node {self._node['metadata']['name']}", "Normal"
            )
        elif answer.outcome != "gone":
            covering = await self._budgets_of(metadata["namespace"])
            by_budget = answer.outcome == "blocked"
            self._refused(uid, now, budgets.explain(pod, covering, by_budget=by_budget, answer=answer.message))

    async def _delete(self, pod: Object, grace_seconds: int | None) -> None:
        metadata = pod["metadata"]
        await self._kube.delete(
            PODS,
            metadata["name"],
            namespace=metadata["namespace"],
            grace_seconds=grace_seconds,
            uid=pods.uid(pod),
        )
        if pods.deletion_instant(pod) is not None:
            return
        self.evicted += 1
        text = f"deleted with {grace_seconds} s of grace, for its Node {self._node['metadata']['name']} must go"
        await self._recorder.publish(pod, "Disrupted", text, "Warning")

    def _refused(self, uid: str, now: datetime, sentence: str) -> None:
        self._held[uid] = sentence
        count = self._refusals.get(uid, 0)
        self._refusals[uid] = count + 1
        wait = SLOWEST_RETRY_SECONDS if count > 3 else 2**count
        self._retry_at[uid] = now + timedelta(seconds=wait)

    async def _budgets_of(self, namespace: str) -> list[dict[str, Any]]:
        if namespace not in self._budgets:
            self._budgets[namespace] = await self._kube.list(PDBS, namespace=namespace)
        return self._budgets[namespace]
