"""Rules between pods hold in every plan, whatever the batch: judged from the records alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Taint, Toleration
from tenon.resources import parse_resources
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Plan, Pool, Problem
from tests.tenon.scheduling.builders import CATALOG, ZONES, need, node, pool

HOST, ZONE, RACK = labels.HOSTNAME, labels.ZONE, "rack"
T = TypeVar("T")
KEYS = st.sampled_from([ZONE, ZONE, HOST, HOST, RACK])
APPS = ["a", "b", "c"]


def app(name: str) -> LabelSelector:
    return LabelSelector((("app", "In", (name,)),))


selectors = st.sampled_from([*map(app, APPS), LabelSelector((("app", "NotIn", ("a",)),)), LabelSelector()])
pod_terms = st.builds(PodTerm, KEYS, selectors, st.sampled_from([(), (), ("other",), ("default", "other")]))


@st.composite
def rules(draw: st.DrawFn, own: str) -> PodRules:
    spreads = []
    for key in draw(st.lists(KEYS, max_size=2, unique=True)):
        selection = draw(st.sampled_from([app(own), app(own), LabelSelector()]))
        hard = draw(st.sampled_from([True, True, False]))
        spreads.append(
            SpreadRule(key, draw(st.integers(1, 2)), selection, hard, draw(st.integers(1, 3)) if hard else 1)
        )
    few = st.lists(pod_terms, max_size=1)
    themselves = st.sampled_from(
        [
            [],
            [],
            [PodTerm(ZONE, app(own))],
            [PodTerm(HOST, app(own))],
            [PodTerm(ZONE, app(own)), PodTerm(HOST, app(own))],
        ]
    )
    lists = st.lists(pod_terms, min_size=2, max_size=2)
    preferred = [(1, term) for term in draw(few)]
    return PodRules(
        tuple(spreads),
        tuple(draw(st.one_of(themselves, few, lists))),
        tuple(draw(st.one_of(themselves, few, lists))),
        preferred_anti_affinity=tuple(preferred),
    )


@st.composite
def groups(draw: st.DrawFn, prefix: str, most: int) -> list[Pod]:
    own = draw(st.sampled_from(APPS))
    cpu = draw(st.sampled_from(["100m", "1", "3500m"]))
    pod = Pod(
        draw(st.sampled_from(["default", "default", "other"])),
        prefix,
        prefix,
        parse_resources({"cpu": cpu, "memory": "1Gi", "pods": 1}),
        {"app": own},
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
        host_ports=draw(st.sampled_from([(), (), (), (("", 80, "TCP"),)])),
        rules=draw(rules(own)),
    )
    return [replace(pod, name=f"{prefix}-{n}", uid=f"{prefix}-{n}") for n in range(draw(st.integers(1, most)))]


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    requirements = [need(RACK, "In", *draw(st.sampled_from([("r1",), ("r1", "r2"), ("r1", "r2", "r3")])))]
    requirements += draw(st.sampled_from([[], [], [need(ZONE, "In", *ZONES[:2])]]))
    taints = draw(st.sampled_from([(), (), (Taint("t", "NoSchedule"),)]))
    limits = draw(st.sampled_from([None, None, {"nodes": 3}, {"cpu": "40"}]))
    return pool(name, *requirements, taints=taints, limits=limits, weight=draw(st.sampled_from([0, 10])))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    nodes = []
    for n in range(draw(st.integers(0, 2))):
        texts = {ZONE: draw(st.sampled_from(ZONES)), RACK: "r1"}
        running = draw(groups(f"run{n}", 2)) if draw(st.booleans()) else []
        used = parse_resources({"cpu": "2", "memory": "4Gi", "pods": len(running)})
        ports = tuple({port for pod in running for port in pod.host_ports})
        nodes.append(node(f"n{n}", labels=texts, used=used, pods=tuple(running), host_ports=ports))
    pending = [pod for n in range(draw(st.integers(1, 4))) for pod in draw(groups(f"g{n}", 6))]
    return Problem(pending, [draw(pools(f"pool-{n}")) for n in range(draw(st.integers(1, 2)))], nodes)


@dataclass(frozen=True)
class Place:
    """A node, with the domains that each key may have on it."""

    name: str
    domains: dict[str, frozenset[str]]
    running: tuple[Pod, ...]
    planned: tuple[Pod, ...]

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.running + self.planned


def places(batch: Problem, plan: Plan) -> list[Place]:
    places = [Place(n.name, _node_domains(n), tuple(n.pods), plan.placements.get(n.name, ())) for n in batch.nodes]
    for number, claim in enumerate(plan.claims):
        own = next(p for p in batch.pools if p.name == claim.pool)
        requirements = own.requirements.with_(claim.requirements)
        zones = {
            offering.zone
            for t in CATALOG
            if t.name in claim.instance_types
            for offering in t.offerings
            if requirements.get(ZONE).has(offering.zone)
        }
        name = f"claim-{number}"
        open_to = {HOST: frozenset([name]), ZONE: frozenset(zones), RACK: requirements[RACK].members}
        places.append(Place(name, open_to, (), claim.pods))
    return places


def _node_domains(node: Node) -> dict[str, frozenset[str]]:
    return {HOST: frozenset([node.name]), ZONE: frozenset([node.labels[ZONE]]), RACK: frozenset([node.labels[RACK]])}


def meets_all(owner: Pod, other: Pod) -> bool:
    """Whether a pod meets every affinity term of the owner: kube-scheduler counts no other."""
    return all(selects(term, owner, other) for term in owner.rules.affinity)


def selects(term: PodTerm, owner: Pod, other: Pod) -> bool:
    assert term.selector is not None
    return other.namespace in (term.namespaces or (owner.namespace,)) and term.selector.matches(other.labels)


@settings(max_examples=250, deadline=None)
@given(problems())
def test_sch053_sch063_sch064_sch065_a_plan_keeps_the_rules_between_pods(batch: Problem) -> None:
    """One plan for all four: to draw a batch and to plan it takes nearly all the time."""
    plan = solve(batch)
    present_items = places(batch, plan)
    nobody_is_where_anti_affinity_forbids_it(present_items)
    everybody_is_beside_a_pod_that_it_asked_for_or_the_first_of_its_own(present_items)
    spread_keeps_within_its_skew(present_items)
    nobody_stays_out_for_whom_a_node_of_its_own_could_still_be_bought(batch, plan, present_items)


def nobody_is_where_anti_affinity_forbids_it(places: Sequence[Place]) -> None:
    """SCH-064, SCH-065."""
    for place in places:
        for owner in place.pods:
            for term in owner.rules.anti_affinity:
                for other_place in places:
                    if place.domains[term.key] & other_place.domains[term.key]:
                        for other in other_place.pods:
                            both_ran = owner in place.running and other in other_place.running
                            assert other is owner or both_ran or not selects(term, owner, other), (owner, other)


def everybody_is_beside_a_pod_that_it_asked_for_or_the_first_of_its_own(places: Sequence[Place]) -> None:
    """SCH-063."""
    for place in places:
        for owner in place.planned:
            for term in owner.rules.affinity:
                key = term.key
                assert len(place.domains[key]) == 1, "a pod with affinity is in a settled domain"
                beside = [p for other in places if other.domains[key] == place.domains[key] for p in other.pods]
                pods = [pod for pod in beside if pod is not owner and meets_all(owner, pod)]
                alone = meets_all(owner, owner) and not any(
                    pod is not owner and meets_all(owner, pod) for other in places for pod in other.running
                )
                assert pods or alone, (owner, term)


def spread_keeps_within_its_skew(places: Sequence[Place]) -> None:
    """SCH-053: where every counted pod has the same constraints and may use every domain, the final counts tell."""
    for place in places:
        for owner in place.planned:
            for spread in owner.rules.spreads:
                if not spread.hard or not counts_pod(spread, owner):
                    continue
                assert len(place.domains[spread.key]) == 1, "a pod with a spread constraint is in a settled domain"
                counted = [p for q in places for p in q.pods if p.namespace == owner.namespace]
                counted = [p for p in counted if counts_pod(spread, p)]
                if any(spread not in pod.rules.spreads for pod in counted):
                    continue  # others may come later and tip the balance
                counts: Counter[str] = Counter()
                for other in places:
                    if len(other.domains[spread.key]) == 1:
                        counts[next(iter(other.domains[spread.key]))] += sum(pod in other.pods for pod in counted)
                most = counts[next(iter(place.domains[spread.key]))]
                running = sum(pod in place.running for pod in counted)
                if spread.key == HOST:
                    assert most <= max(spread.max_skew, running)
                elif not running and not any(other.running for other in places):
                    assert most - min(counts.values()) <= spread.max_skew, counts


def nobody_stays_out_for_whom_a_node_of_its_own_could_still_be_bought(
    batch: Problem, plan: Plan, places: list[Place]
) -> None:
    """A pod that is left over breaks a rule wherever a new node of a pool without limits could be."""
    pods = [pod for pod in batch.pods if pod.key in plan.unschedulable]
    for pod in pods:
        for batch_pool in batch.pools:
            if batch_pool.limits is None and tolerated(pod, batch_pool):
                zones = batch_pool.requirements.get(ZONE).members or ZONES
                for zone, rack in product(sorted(zones), sorted(batch_pool.requirements[RACK].members)):
                    empty = Place(
                        "new", {HOST: frozenset(["new"]), ZONE: frozenset([zone]), RACK: frozenset([rack])}, (), ()
                    )
                    assert not may_join(pod, empty, places, batch), (pod, batch_pool.name, zone, rack)


def tolerated(pod: Pod, pool: Pool) -> bool:
    return all(any(t.tolerates(taint) for t in pod.tolerations) for taint in pool.taints)


def may_join(pod: Pod, place: Place, places: list[Place], batch: Problem) -> bool:
    """Whether the pod's required rules, and those of others against it, let it on an empty node."""

    def beside(key: str) -> list[Pod]:
        return [other for q in places if q.domains[key] & place.domains[key] for other in q.pods]

    for term in pod.rules.anti_affinity:
        if any(selects(term, pod, other) for other in beside(term.key)):
            return False
    for q in places:
        for owner in q.pods:
            for term in owner.rules.anti_affinity:
                if q.domains[term.key] & place.domains[term.key] and selects(term, owner, pod):
                    return False
    if pod.rules.affinity:
        requests = [other for q in places for other in q.pods if meets_all(pod, other)]
        joins = all(
            any(meets_all(pod, other) for q in places if q.domains[t.key] == place.domains[t.key] for other in q.pods)
            for t in pod.rules.affinity
        )
        if not joins and (requests or not meets_all(pod, pod)):
            return False
    return all(within_skew(pod, spread, place, places, batch) for spread in pod.rules.spreads if spread.hard)


def counts_pod(spread: SpreadRule, pod: Pod) -> bool:
    """Whether the selector counts the pod: an empty one counts none."""
    assert spread.selector is not None
    return bool(spread.selector.expressions) and spread.selector.matches(pod.labels)


def within_skew(pod: Pod, spread: SpreadRule, place: Place, places: list[Place], batch: Problem) -> bool:
    if spread.key == HOST:
        return counts_pod(spread, pod) <= spread.max_skew
    counts: Counter[str] = Counter()
    for batch_pool in batch.pools:
        if tolerated(pod, batch_pool):
            values = batch_pool.requirements.get(spread.key).members or ZONES
            counts.update(dict.fromkeys(values, 0))
    for q in places:
        if len(q.domains[spread.key]) == 1:
            counts[next(iter(q.domains[spread.key]))] += sum(
                other.namespace == pod.namespace and counts_pod(spread, other) for other in q.pods
            )
    least = min(counts.values()) if len(counts) >= spread.min_domains else 0
    (domain,) = place.domains[spread.key]
    return counts[domain] + counts_pod(spread, pod) - least <= spread.max_skew


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_qrk05_the_order_of_the_input_decides_nothing(batch: Problem, seed: int) -> None:
    """Ties between domains, the zone that a group opens, the node that a pod gets: the same in every run."""
    shuffle = random.Random(seed)

    def mixed(items: Sequence[T]) -> list[T]:
        return shuffle.sample(list(items), len(items))

    other = replace(batch, pods=mixed(batch.pods), pools=mixed(batch.pools), nodes=mixed(batch.nodes))
    assert solve(other) == solve(batch)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_ignoring_preferences_never_leaves_more_pods_without_a_rule_to_blame(batch: Problem) -> None:
    plan = solve(replace(batch, ignore_preferences=True))
    parts = [pod.key for claim in plan.claims for pod in claim.pods]
    parts += [pod.key for placed in plan.placements.values() for pod in placed]
    assert sorted([*parts, *plan.unschedulable]) == sorted(pod.key for pod in batch.pods)
    assert all(map(str, plan.unschedulable.values()))
