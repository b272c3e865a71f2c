"""What plans of one cluster share must not change any of them."""

from __future__ import annotations

import gc
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.search.rescheduling import Rescheduler
from tenon.scheduling.batch import Batch
from tenon.scheduling.domains.domain_values import Domains
from tenon.scheduling.domains.topology_counts import TopologyCounts
from tenon.scheduling.existing.cluster_facts import ClusterFacts
from tenon.scheduling.existing.room_index import RoomIndex
from tenon.scheduling.offerings.template import Template
from tests.tenon.disruption.clusters import Cluster, situation
from tests.tenon.disruption.random_clusters import clusters


def model_of(cluster: Cluster) -> ClusterModel:
    model = situation(cluster).model
    assert model is not None
    return model


@given(clusters(often=True), st.booleans())
@settings(max_examples=100)
def test_dis32_plans_that_share_facts_are_as_those_that_do_not(cluster: Cluster, forwards: bool) -> None:
    model = model_of(cluster)
    names = sorted(model.details, reverse=forwards)
    attempts = [*([name] for name in names), names[:2], names]
    shared = Rescheduler(model)
    for attempt in [*attempts, *reversed(attempts)]:
        alone = Rescheduler(replace(model, facts=ClusterFacts()))
        assert shared.simulate(attempt) == alone.simulate(attempt)
        assert shared.simulate(attempt, buys=False) == alone.simulate(attempt, buys=False)


@given(clusters(often=True))
@settings(max_examples=60)
def test_dis32_a_plan_after_a_removal_is_made_for_the_cluster_without_the_node(cluster: Cluster) -> None:
    model = model_of(cluster)
    names = sorted(model.details)
    shared, alone = Rescheduler(model), Rescheduler(replace(model, facts=ClusterFacts()))
    shared.simulate(names[-1:])  # an answer that the removal may make wrong
    for rescheduler in (shared, alone):
        rescheduler.accept(names[:1], rescheduler.simulate(names[:1]))
    for name in names[1:]:
        assert shared.simulate([name]) == alone.simulate([name])


@given(clusters(often=True))
@settings(max_examples=100)
def test_the_index_of_rooms_drops_no_node_that_takes_a_pod(cluster: Cluster) -> None:
    model = model_of(cluster)
    for detail in model.details.values():
        batch = Batch(replace(model.problem, pods=detail.pods))
        rooms = batch.rooms(batch.shares())
        TopologyCounts(batch.topology, Domains(rooms), rooms, batch.running(rooms))
        open_rooms = [room for room in rooms if room.open]
        index = RoomIndex(open_rooms)
        for pod_class in batch.classes:
            taking = [number for number, room in enumerate(open_rooms) if room.room_for(pod_class, 1)]
            assert set(taking) <= set(index.candidates(pod_class))
            for number in taking[:1]:
                open_rooms[number].take(pod_class, 0, 1)
                index.update(number)
            taking = [number for number, room in enumerate(open_rooms) if room.room_for(pod_class, 1)]
            assert set(taking) <= set(index.candidates(pod_class))


def test_a_search_with_capacity_reservations_keeps_no_template_of_a_plan_that_is_over() -> None:
    """Each plan divides such NodePools anew, so no other plan asks for its templates, and a search makes hundreds."""
    cluster = Cluster.model_validate(
        {
            "pools": {"default": {"capacityTypes": ["on-demand", "reserved"]}},
            "reservations": {"cr-1": {"type": "m5.large", "places": 2}},
            "nodes": {f"n{number}": {"pods": [{"cpu": "3", "memory": "6Gi"}]} for number in range(6)},
        }
    )
    model = model_of(cluster)
    rescheduler = Rescheduler(model)

    def kept_templates() -> int:
        gc.collect()
        return sum(isinstance(candidate, Template) for candidate in gc.get_objects())

    before = kept_templates()
    for name in sorted(model.details):
        assert rescheduler.simulate([name]).claims
    assert kept_templates() <= before + 1


def test_pods_of_another_namespace_or_with_other_rules_are_counted_apart() -> None:
    """Running pods are counted by kind, so pods that a rule tells apart must be of different kinds."""
    first = ClusterFacts().nodes
    cluster = Cluster.model_validate(
        {
            "nodes": {
                "a": {"pods": [{"app": "web", "apart": True, "count": 2}, {"app": "web"}, {"app": "db"}]},
            }
        }
    )
    (node,) = model_of(cluster).problem.nodes
    assert [count for _, count in first.kinds_on(node)] == [2, 1, 1]
    elsewhere = replace(node, pods=tuple(replace(pod, namespace="other") for pod in node.pods))
    assert not {kind for kind, _ in first.kinds_on(node)} & {kind for kind, _ in first.kinds_on(elsewhere)}
    assert first.kinds_on(replace(node, closed=True)) is first.kinds_on(node)
