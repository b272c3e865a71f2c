"""Rules between pods hold in every plan, whatever the batch: judged from the records alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.resources import parse_resources
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Plan, Pod, Pool, Problem, Taint, Toleration
from tenon.scheduling.pod_rules import LabelSelector, PodRules, PodTerm, SpreadRule
from tests.scheduling.builders import CATALOG, ZONES, need, node, pool

HOST, ZONE, RACK = labels.HOSTNAME, labels.ZONE, "rack"
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
        chosen = draw(st.sampled_from([app(own), app(own), LabelSelector()]))
        hard = draw(st.sampled_from([True, True, False]))
        spreads.append(SpreadRule(key, draw(st.integers(1, 2)), chosen, hard, draw(st.integers(1, 3)) if hard else 1))
    few = st.lists(pod_terms, max_size=1)
    themselves = st.sampled_from([[], [], [PodTerm(ZONE, app(own))], [PodTerm(HOST, app(own))]])
    preferred = [(1, term) for term in draw(few)]
    return PodRules(
        tuple(spreads),
        tuple(draw(st.one_of(themselves, few))),
        tuple(draw(st.one_of(themselves, few))),
        preferred_anti_affinity=tuple(preferred),
    )


@st.composite
def groups(draw: st.DrawFn, prefix: str, most: int) -> list[Pod]:
    own = draw(st.sampled_from(APPS))
    cpu = draw(st.sampled_from(["100m", "1", "3500m"]))
    one = Pod(
        draw(st.sampled_from(["default", "default", "other"])),
        prefix,
        prefix,
        parse_resources({"cpu": cpu, "memory": "1Gi", "pods": 1}),
        {"app": own},
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
        host_ports=draw(st.sampled_from([(), (), (), (("", 80, "TCP"),)])),
        rules=draw(rules(own)),
    )
    return [replace(one, name=f"{prefix}-{n}", uid=f"{prefix}-{n}") for n in range(draw(st.integers(1, most)))]


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    wanted = [need(RACK, "In", *draw(st.sampled_from([("r1",), ("r1", "r2"), ("r1", "r2", "r3")])))]
    wanted += draw(st.sampled_from([[], [], [need(ZONE, "In", *ZONES[:2])]]))
    taints = draw(st.sampled_from([(), (), (Taint("t", "NoSchedule"),)]))
    limits = draw(st.sampled_from([None, None, {"nodes": 3}, {"cpu": "40"}]))
    return pool(name, *wanted, taints=taints, limits=limits, weight=draw(st.sampled_from([0, 10])))


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
    found = [Place(n.name, _node_domains(n), tuple(n.pods), plan.placements.get(n.name, ())) for n in batch.nodes]
    for number, claim in enumerate(plan.claims):
        own = next(p for p in batch.pools if p.name == claim.pool)
        known = own.requirements.with_(claim.requirements)
        zones = {
            offering.zone
            for t in CATALOG
            if t.name in claim.instance_types
            for offering in t.offerings
            if known.get(ZONE).has(offering.zone)
        }
        name = f"claim-{number}"
        open_to = {HOST: frozenset([name]), ZONE: frozenset(zones), RACK: known[RACK].members}
        found.append(Place(name, open_to, (), claim.pods))
    return found


def _node_domains(one: Node) -> dict[str, frozenset[str]]:
    return {HOST: frozenset([one.name]), ZONE: frozenset([one.labels[ZONE]]), RACK: frozenset([one.labels[RACK]])}


def selects(term: PodTerm, owner: Pod, other: Pod) -> bool:
    assert term.selector is not None
    return other.namespace in (term.namespaces or (owner.namespace,)) and term.selector.matches(other.labels)


@settings(max_examples=250, deadline=None)
@given(problems())
def test_sch064_sch065_nobody_is_where_anti_affinity_forbids_it(batch: Problem) -> None:
    there = places(batch, solve(batch))
    for place in there:
        for owner in place.pods:
            for term in owner.rules.anti_affinity:
                for other_place in there:
                    if place.domains[term.key] & other_place.domains[term.key]:
                        for other in other_place.pods:
                            both_ran = owner in place.running and other in other_place.running
                            assert other is owner or both_ran or not selects(term, owner, other), (owner, other)


@settings(max_examples=250, deadline=None)
@given(problems())
def test_sch063_everybody_is_beside_a_pod_that_it_asked_for_or_the_first_of_its_own(batch: Problem) -> None:
    there = places(batch, solve(batch))
    for place in there:
        for owner in place.planned:
            for term in owner.rules.affinity:
                key = term.key
                assert len(place.domains[key]) == 1, "a pod with affinity is in a settled domain"
                beside = [p for other in there if other.domains[key] == place.domains[key] for p in other.pods]
                asked = [pod for pod in beside if pod is not owner and selects(term, owner, pod)]
                alone = selects(term, owner, owner) and not any(
                    pod is not owner and selects(term, owner, pod) for other in there for pod in other.running
                )
                assert asked or alone, (owner, term)


@settings(max_examples=250, deadline=None)
@given(problems())
def test_sch053_spread_keeps_within_its_skew(batch: Problem) -> None:
    """Where every counted pod has the same constraint and may use every domain, the final counts tell."""
    there = places(batch, solve(batch))
    for place in there:
        for owner in place.planned:
            for spread in owner.rules.spreads:
                if not spread.hard or spread.selector is None or not spread.selector.matches(owner.labels):
                    continue
                assert len(place.domains[spread.key]) == 1, "a pod with a spread constraint is in a settled domain"
                counted = [p for q in there for p in q.pods if p.namespace == owner.namespace]
                counted = [p for p in counted if spread.selector.matches(p.labels)]
                if any(spread not in pod.rules.spreads for pod in counted):
                    continue  # others may come later and tip the balance
                counts: Counter[str] = Counter()
                for other in there:
                    if len(other.domains[spread.key]) == 1:
                        counts[next(iter(other.domains[spread.key]))] += sum(pod in other.pods for pod in counted)
                most = counts[next(iter(place.domains[spread.key]))]
                running = sum(pod in place.running for pod in counted)
                if spread.key == HOST:
                    assert most <= max(spread.max_skew, running)
                elif not running and not any(other.running for other in there):
                    assert most - min(counts.values()) <= spread.max_skew, counts


@settings(max_examples=80, deadline=None)
@given(problems())
def test_ignoring_preferences_never_leaves_more_pods_without_a_rule_to_blame(batch: Problem) -> None:
    plan = solve(replace(batch, ignore_preferences=True))
    parts = [pod.key for claim in plan.claims for pod in claim.pods]
    parts += [pod.key for placed in plan.placements.values() for pod in placed]
    assert sorted([*parts, *plan.unschedulable]) == sorted(pod.key for pod in batch.pods)
    assert all(plan.unschedulable.values())
