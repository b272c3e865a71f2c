"""Runs the model next to the cluster: looks every two seconds, and decides in a thread when something is due."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from activities import loggers
from cli.shadowing.inputs import Inputs
from cli.shadowing.observed import ObservedChanges, ObservedCluster
from cli.shadowing.store import ShadowFile
from tenon.apis import labels
from tenon.disruption.pass_pauses import PASS_SECONDS
from tenon.disruption.pool_policy import PoolPolicy, policies_of
from tenon.kube.pod import Pod
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, selecting
from tenon.kube.records import PodRecord
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.resources import NODES, Resources, add, subtract
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.model import Node, Plan
from tenon.shadow.batches import Batches, RealClaim
from tenon.shadow.cluster import ModelCluster, begun
from tenon.shadow.disruptions import Rules, carry_out_due, expire, interrupt, look_for_moves, remove_empty
from tenon.shadow.feeding import feed
from tenon.shadow.kube_scheduling import bind
from tenon.shadow.ledger import Ledger, Rates
from tenon.shadow.pace import ShadowPace
from tenon.shadow.purchases import buy, is_due
from tenon.shadow.saved import VERSION, ShadowTotals, restored
from tenon.shadow.theirs import Theirs
from tenon.shadow.view import ModelView, ShadowPodFacts
from tenon.shadow.waiting_commands import due_commands
from tenon.simulation.decisions import decide
from tenon.simulation.model_after import model_after
from worker.cache.snapshot import Snapshot

log = loggers.CACHE

TICK_SECONDS = 2.0
SEARCH_SECONDS = 60.0
"""The longest time of one search for moves."""
BOUND_SECONDS, BOUND_FACTOR = 60.0, 50.0
"""The lower bound is computed again after so many seconds, and so many times the CPU seconds that it took."""
SAVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a step needs of the cluster, read in the event loop so that a thread can use it."""

    now: float
    changes: ObservedChanges
    claims: dict[str, RealClaim]
    pending: Sequence[Pod]
    interrupted: Sequence[tuple[str, str, str]]
    snapshot: Snapshot | None
    """None if no decision is due."""
    outside_nodes: Sequence[Node]
    real_nodes: Sequence[Node]
    node_names: dict[str, str]
    """By NodeClaim, the name of its entry in ``real_nodes``."""
    policies: dict[str, PoolPolicy]
    budgets: dict[str, list[PodDisruptionBudget]]
    drifted: dict[str, str]
    boot: float
    drain: float
    disrupts: bool


class Shadow:
    """The model, the comparisons and the ledger. `run` keeps them up to date."""

    def __init__(
        self,
        observed: ObservedCluster,
        inputs: Inputs,
        store: ShadowFile,
        cluster_uid: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.observed, self.inputs, self.store = observed, inputs, store
        self.model = ModelCluster()
        self.batches = Batches()
        self.theirs = Theirs()
        self.pace = ShadowPace()
        self.totals = ShadowTotals(
            VERSION, cluster_uid, 0, self.model.disturbance, self.theirs.disturbance, Ledger(), inputs.fingerprint
        )
        self.boot = 0.0
        self.failures: dict[str, str] = {}
        """By part of a decision that failed last, why."""
        self.bound: float | None = None
        self._clock = clock
        self._next_pass = self._next_bound = self._next_save = 0.0

    def begin(self) -> str:
        """Begin the model as a copy of the cluster, or go on with the one of the file. The cache must be complete.

        Returns why the file's model does not go on, in a clause; empty if it does, or if the file has none.

        Raises:
            StoreError: another version wrote the file.
        """
        now = self._clock()
        changes = self.observed.changes()
        totals = self.store.totals()
        why = "" if totals is None else self._why_not(totals)
        if totals is not None and not why:
            node_texts, places = self.store.model()
            self.model = restored(node_texts, places, changes.present, totals, now)
            self.totals = totals
            self.theirs = Theirs(totals.theirs)
            last = totals.ledger.last
            self.theirs.go_on(self.observed.claims(), changes.present, last.at if last is not None else 0.0)
        else:
            self.store.clear()
            nodes, node_of = self.observed.begin(now)
            self.model = begun(nodes, changes.present, node_of, now)
            versions = ModelView(self.model, self.observed.view.snapshot(), now).versions()
            for node in self.model.nodes.values():
                node.version = versions.get(node.pool, "")
            self.totals.ours = self.model.disturbance
        self.batches.known_claims = {name: claim.created for name, claim in self.observed.real_claims().items()}
        self._next_save = now + SAVE_SECONDS
        return why

    def _why_not(self, totals: ShadowTotals) -> str:
        if totals.cluster_uid != self.totals.cluster_uid:
            return "it is about another cluster"
        return "" if totals.inputs == self.totals.inputs else "-f, --set or --catalog are not those that it began with"

    async def step(self) -> None:
        """Look once."""
        now = self._clock()
        moment = self._moment(now)
        if moment.snapshot is None:
            self._advance(moment)
        else:
            await asyncio.to_thread(self._advance, moment)
        if moment.disrupts:
            ended, due = self._clock(), self.pace.due
            self._next_pass = min(ended + PASS_SECONDS, due) if due > ended else ended + PASS_SECONDS
        self.totals.ledger.note(now, self.rates())
        if now >= self._next_save:
            await asyncio.to_thread(self.save)

    def save(self) -> None:
        """Write the state."""
        self.totals.bought = self.model.bought
        self.store.save(self.model, self.totals)
        self._next_save = self._clock() + SAVE_SECONDS

    def rates(self) -> Rates:
        """Return what both cost now."""
        prices = self.inputs.prices
        launched = [claim for claim in self.observed.real_claims().values() if claim.launched]
        return Rates(
            theirs=sum(prices.get(claim.offering, 0.0) for claim in launched),
            ours=self.model.price(prices),
            their_nodes=len(launched),
            our_nodes=len(self.model.nodes),
            their_waiting=len(self.observed.cache.pending()),
            our_waiting=sum(1 for _ in self.model.waiting()),
            bound=self.bound,
        )

    def unpriced_offerings(self) -> set[tuple[str, str, str]]:
        """Return the offerings of the cluster's nodes that have no price."""
        claims = self.observed.real_claims().values()
        return {claim.offering for claim in claims if claim.launched and not self.inputs.prices.get(claim.offering)}

    def _moment(self, now: float) -> _Moment:
        observed, cache = self.observed, self.observed.cache
        changes = observed.changes()
        claims = observed.claims()
        interrupted = self.theirs.observe(claims, changes.present, changes.evicted, now)
        self.theirs.forget(changes.ended)
        real_claims = observed.real_claims()
        disrupts = now >= self._next_pass or bool(due_commands(self.model.commands, now))
        buys = self.batches.is_open or not real_claims.keys() <= self.batches.known_claims.keys()
        decides = disrupts or buys or bool(changes.present) or is_due(self.model, now)
        by_namespace = {
            namespace: [pdb.value for pdb in group]
            for namespace, group in groupby(
                sorted(cache.moving.pdbs, key=lambda pdb: pdb.value.namespace), key=lambda pdb: pdb.value.namespace
            )
        }
        self.boot = observed.boot_seconds() if disrupts or not self.boot else self.boot
        real_nodes = cache.scheduling_nodes() if buys else []
        nodes = {claim.name: node.name for claim in claims if (node := cache.node_of(claim)) is not None}
        return _Moment(
            now=now,
            changes=changes,
            claims=real_claims,
            pending=observed.pending(),
            interrupted=interrupted,
            snapshot=observed.view.snapshot() if decides else None,
            outside_nodes=[replace(node, closed=True) for node in observed.outside_nodes()] if decides else [],
            real_nodes=real_nodes,
            node_names={claim.name: nodes.get(claim.name, claim.name) for claim in claims},
            policies=policies_of(observed.view.node_pools(), observed.view.disruption_freezes()),
            budgets=by_namespace,
            drifted=observed.drifted() if disrupts else {},
            boot=self.boot,
            drain=self.theirs.drain_seconds,
            disrupts=disrupts,
        )

    def _advance(self, moment: _Moment) -> None:
        """Let the model live on until now."""
        model, now = self.model, moment.now
        model.remove_left_nodes(now)
        changes = moment.changes
        feed(model, changes.present, changes.ended, now, [record.uid for record in changes.evicted])
        interrupt(model, moment.interrupted, now)
        bind(model, now)
        self._try("comparisons", lambda: self._compare(moment))
        if moment.snapshot is None:
            return
        view = ModelView(model, moment.snapshot, now, moment.outside_nodes, moment.drifted)
        expire(view, moment.policies, moment.boot, moment.drain)
        if is_due(model, now):
            self._try("purchases", lambda: buy(view, self.inputs.question, moment.boot, time.perf_counter))
        if moment.disrupts:
            self._try("disruption", lambda: self._disrupt(view, moment))
            if now >= self._next_bound:
                began = time.thread_time()
                self._try("the lower bound", lambda: self._compute_bound(view))
                self._next_bound = now + max(BOUND_SECONDS, BOUND_FACTOR * (time.thread_time() - began))

    def _try(self, part: str, action: Callable[[], object]) -> None:
        """Decide. A failure of the engine is reported, and the model goes on."""
        try:
            action()
            self.failures.pop(part, None)
        except Exception as error:  # a report with a gap is better than none
            self.failures[part] = f"{type(error).__name__}: {error}"
            log.exception("A decision of the model failed", extra={"operation": part})

    def _disrupt(self, view: ModelView, moment: _Moment) -> None:
        def budgets_of(record: PodRecord) -> Sequence[PodDisruptionBudget]:
            return selecting(record.pod, moment.budgets.get(record.pod.namespace, ()))

        deadline = time.monotonic() + SEARCH_SECONDS
        settings = self.inputs.settings
        rules = Rules(
            policies=moment.policies,
            facts=ShadowPodFacts(budgets_of, settings.gates().pod_deletion_cost_management),
            gates=settings.gates(),
            prices=self.inputs.prices,
            boot=moment.boot,
            drain=moment.drain,
            expired=lambda: time.monotonic() > deadline,
            on_failure=lambda name, error: self.failures.update({name: str(error)}),
        )
        commands = [*carry_out_due(view, self.inputs.question, rules), *remove_empty(view, rules)]
        if self.pace.begins(view, moment.policies):
            began = time.thread_time()
            moves, cursor = look_for_moves(view, self.inputs.question, rules, self.pace.cursor)
            commands += moves
            self.pace.ended(self._clock(), time.thread_time() - began, cursor)
        for command in commands:
            self.totals.carried_out(command)

    def _compute_bound(self, view: ModelView) -> None:
        """Compute what any nodes for the model's pods cost at least."""
        model = model_after(Plan(), view, self.inputs.question, lambda _types: {})
        pods = [pod for node in view.cluster.nodes.values() for pod in node.pods.values()]
        pools = [replace(pool, usage={}) for pool in model.problem.pools]
        self.bound = lower_bound(replace(model.problem, pods=pods, nodes=[], pools=pools))

    def _compare(self, moment: _Moment) -> None:
        def plan(pods: Sequence[Pod], without: frozenset[str]) -> Plan:
            assert moment.snapshot is not None
            left_out = {moment.node_names.get(name, name) for name in without}
            cluster = _Before(moment.snapshot, moment.real_nodes, left_out)
            return decide(cluster, replace(self.inputs.question, pods=pods), time.perf_counter).plan

        comparisons = self.batches.observe(
            moment.now, moment.claims, moment.pending, self.observed.place_of, plan, self.inputs.prices
        )
        for comparison in comparisons:
            self.totals.compared(comparison)


class _Before:
    """The cluster without the nodes of a purchase, as a plan for its pods must see it."""

    def __init__(self, snapshot: Snapshot, nodes: Sequence[Node], left_out: set[str]) -> None:
        self._nodes = [node for node in nodes if node.name not in left_out]
        self._without = [node for node in nodes if node.name in left_out]
        self.daemons, self.namespaces = snapshot.daemons, snapshot.namespaces
        self.node_pools, self.node_class = snapshot.node_pools, snapshot.node_class
        self._snapshot = snapshot

    def nodes(self) -> Sequence[Node]:
        """Existing and in-flight capacity."""
        return self._nodes

    def pool_usage(self, pool: str) -> Resources:
        """What the pool's other nodes use of its limits."""
        own = [node for node in self._without if node.labels.get(labels.NODEPOOL) == pool]
        freed = add(*(node.limited for node in own), {NODES: len(own)})
        usage = subtract(self._snapshot.pool_usage(pool), freed)
        return {name: max(0, units) for name, units in usage.items()}

    def purchases(self) -> list[BoughtOffering]:
        """What the other nodes were bought as."""
        keys = (labels.NODEPOOL, labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        freed = Counter(tuple(node.labels.get(key, "") for key in keys) for node in self._without)
        others = []
        for bought in self._snapshot.purchases():
            key = (bought.pool, bought.instance_type, bought.zone, bought.capacity_type)
            if freed[key]:
                freed[key] -= 1
            else:
                others.append(bought)
        return others
