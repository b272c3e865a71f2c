"""What the estimate of consolidation says fits nowhere is what does not fit when each pod is tried on each node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.room_estimate import RoomEstimate
from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY, PODS, parse_resources
from tenon.scheduling.model import Node, Plan
from tests.tenon.scheduling.builders import node, pod

GPU = "nvidia.com/gpu"
NAMES = [f"n{number}" for number in range(5)]


def detail(name: str, pods: tuple[Pod, ...]) -> NodeDetail:
    return NodeDetail(name, "m5.large", "a", "on-demand", 1.0, pods, 1.0)


def naive(claim: str, pods: tuple[Pod, ...], free: dict[str, dict[str, int]], shut: set[str]) -> list[str]:
    """Place the pods one after the other, the largest first, on the first node by name that has room."""
    remainder = {name: dict(room) for name, room in free.items() if name not in shut | {claim}}
    result = []
    for item in sorted(pods, key=lambda pod: pod.requests[CPU], reverse=True):
        amounts = {name: amount for name, amount in item.requests.items() if amount}
        room = next((room for room in remainder.values() if all(room.get(n, 0) >= a for n, a in amounts.items())), None)
        if room is None:
            result.append(item.name)
            continue
        for name, amount in amounts.items():
            room[name] -= amount
    return result


@st.composite
def nodes_and_pods(draw: st.DrawFn) -> list[tuple[Node, tuple[Pod, ...]]]:
    result = []
    for name in NAMES:
        used = {
            CPU: draw(st.integers(0, 4000)),
            MEMORY: draw(st.integers(0, 16)) * 2**30,
            PODS: draw(st.integers(0, 58)),
        }
        gpus = draw(st.sampled_from([0, 0, 1]))
        output = node(name, used=used, closed=draw(st.integers(0, 3)) == 0)
        output.allocatable[GPU] = gpus
        requests = draw(
            st.lists(st.tuples(st.sampled_from(["100m", "1", "2"]), st.sampled_from([0, 0, 0, 1])), max_size=4)
        )
        pods = tuple(pod(f"{name}-{number}", cpu, extra={GPU: gpu}) for number, (cpu, gpu) in enumerate(requests))
        result.append((output, pods))
    return result


@settings(max_examples=100)
@given(nodes_and_pods(), st.sets(st.sampled_from(NAMES), max_size=2), st.sampled_from(NAMES))
def test_the_pods_that_fit_nowhere_are_those_for_which_no_node_has_room(
    cluster: list[tuple[Node, tuple[Pod, ...]]], closed: set[str], removed_node: str
) -> None:
    """Also after a move was found, whose node is gone and whose pods took room elsewhere."""
    details = {output.name: detail(output.name, pods) for output, pods in cluster}
    rooms = RoomEstimate([output for output, _ in cluster], [], details)
    names = (CPU, MEMORY, PODS, GPU)
    free = {
        output.name: {name: output.allocatable.get(name, 0) - output.used.get(name, 0) for name in names}
        for output, _ in cluster
        if not output.closed
    }
    for claim in NAMES:
        expected = naive(claim, details[claim].pods, free, closed)
        assert [item.name for item in rooms.left_over(claim, closed)] == expected
    host = next((name for name in free if name != removed_node), None)
    if host is None:
        return
    resources = parse_resources({"cpu": "100m", "memory": "1Gi", "pods": 1})
    rooms.accept([removed_node], Plan(placements={host: (pod("moved", "100m"),)}))
    free.pop(removed_node, None)
    free[host] = {name: amount - resources.get(name, 0) for name, amount in free[host].items()}
    for claim in NAMES:
        expected = naive(claim, details[claim].pods, free, closed)
        assert [item.name for item in rooms.left_over(claim, closed)] == expected
