"""One way to state a scheduling problem: everything that bears on a plan gets into it."""

from __future__ import annotations

from dataclasses import replace

from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of
from tests.activities.provisioning.fake_view import FakeView
from tests.tenon.scheduling.builders import CATALOG, node, pod


def test_what_the_cluster_says_and_an_operator_set_is_in_the_problem() -> None:
    view = FakeView()
    view.existing = [node("n1")]
    view.spaces = {"default": {}, "shop": {"team": "a"}}
    view.usage = {"nodes": 3}
    policy = PlanPolicy(True, True, node_charge=0.5, most_pods_share=0.25)
    problem = problem_of(view, [pod("a")], [(view.pools[0], CATALOG)], policy)
    assert [pod.name for pod in problem.pods] == ["a"]
    assert [(pool.name, pool.usage) for pool in problem.pools] == [("default", {"nodes": 3})]
    assert problem.namespaces == view.spaces
    assert list(problem.nodes) == view.existing
    assert (problem.ignore_preferences, problem.min_values_best_effort) == (True, True)
    assert (problem.node_charge, problem.most_pods_share) == (0.5, 0.25)


def test_pods_that_wait_for_kube_scheduler_take_their_room_and_count_on_their_node() -> None:
    """Or one node's room is promised twice."""
    view = FakeView()
    present_items, expected = pod("there"), pod("coming", cpu="2")
    view.existing = [replace(node("n1"), used={"cpu": 1000}, pods=(present_items,)), node("n2")]
    occupancy, free = problem_of(view, [], [], PlanPolicy(), {"n1": [expected], "gone": [expected]}).nodes
    assert occupancy.used["cpu"] == 3000
    assert occupancy.pods == (present_items, expected)
    assert free is view.existing[1]


def test_the_host_ports_of_pods_that_wait_for_kube_scheduler_are_taken() -> None:
    view = FakeView()
    view.existing = [node("n1", host_ports=(("0.0.0.0", 9100, "TCP"),))]
    expected = pod("coming", host_ports=(("0.0.0.0", 80, "TCP"),))
    (observations,) = problem_of(view, [], [], PlanPolicy(), {"n1": [expected]}).nodes
    assert observations.host_ports == (("0.0.0.0", 9100, "TCP"), ("0.0.0.0", 80, "TCP"))


def test_a_pod_that_is_asked_for_takes_no_room_where_it_was_expected() -> None:
    """Kube-scheduler may take long, as while a volume is made: its node must not seem full of the pod itself."""
    view = FakeView()
    late, other = pod("late", cpu="3", host_ports=(("0.0.0.0", 80, "TCP"),)), pod("other")
    ports = (("0.0.0.0", 80, "TCP"), ("0.0.0.0", 9100, "TCP"))
    view.existing = [node("n1", used={"cpu": 4000, "memory": 2**31, "pods": 2}, pods=(late, other), host_ports=ports)]
    (observations,) = problem_of(view, [late], [], PlanPolicy()).nodes
    assert observations.used == {"cpu": 1000, "memory": 2**30, "pods": 1}
    assert observations.pods == (other,)
    assert observations.host_ports == (("0.0.0.0", 9100, "TCP"),)
