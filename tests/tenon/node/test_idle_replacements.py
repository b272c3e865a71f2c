"""What a blocked drain says of the nodes that were bought for its pods (TRM-05)."""

from __future__ import annotations

import pytest

from tenon.kube.planned_pods import PlannedPod
from tenon.kube.pod_decode import pod_of
from tenon.node.idle_replacements import IdleNode, idle_sentence, is_empty, waits_for
from tests.activities.node.world import pod


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], ""),
        ([IdleNode("a", 5, 0.1187)], "meanwhile Node a stands empty at $0.1187 an hour and waits for 5 of these pods"),
        ([IdleNode("a", 1, 0.0)], "meanwhile Node a stands empty and waits for 1 of these pods"),
        (
            [IdleNode(name, 2, 0.25) for name in "abcd"],
            "meanwhile Nodes a, b, c and 1 more stand empty at $1.0000 an hour together and wait for 8 of these pods",
        ),
        (
            [IdleNode("a", 1, 0.1), IdleNode("b", 1, 0.0)],
            "meanwhile Nodes a, b stand empty and wait for 2 of these pods",
        ),
    ],
)
def test_the_sentence_names_nodes_their_price_and_the_pods(nodes: list[IdleNode], text: str) -> None:
    assert idle_sentence(nodes) == text


def test_only_the_pods_that_are_kept_count() -> None:
    """A pod of the same name that has moved already has another UID."""
    planned = [PlannedPod("default", "web-0", "old"), PlannedPod("default", "web-1", "kept")]
    assert waits_for(planned, {"kept", "other"}) == 1


def test_a_node_with_pods_of_daemonsets_only_is_empty() -> None:
    daemon, web = pod_of(pod("log", owner="DaemonSet")), pod_of(pod("web-0"))
    assert is_empty([daemon])
    assert not is_empty([daemon, web])
