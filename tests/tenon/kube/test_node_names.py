"""Which Node a name without its domain stands for."""

from __future__ import annotations

import pytest

from tenon.kube.node_names import AmbiguousNameError, whole_name, without_domain

NODES = ["ip-10-0-0-8.us-west-2.compute.internal", "ip-10-0-0-80.us-west-2.compute.internal", "web", "web.example.com"]


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("ip-10-0-0-8", NODES[0]),
        ("ip-10-0-0-8.us-west-2", NODES[0]),
        (NODES[1], NODES[1]),
        ("web", "web"),
        ("ip-10-0-0", "ip-10-0-0"),
        ("", ""),
    ],
)
def test_a_name_without_its_domain_stands_for_the_only_node_that_begins_with_it(name: str, node: str) -> None:
    assert whole_name(name, NODES) == node


def test_the_name_of_a_nodeclaim_stands_for_itself() -> None:
    assert whole_name("ip-10-0-0-8", NODES, others=["ip-10-0-0-8"]) == "ip-10-0-0-8"


def test_a_name_of_several_nodes_is_refused_with_all_of_them() -> None:
    with pytest.raises(AmbiguousNameError, match=r"^n stands for 2 Nodes, n\.a, n\.b: write the whole name of one\.$"):
        whole_name("n", ["n.b", "n.a", "m.a"])


def test_lists_leave_out_the_domain_of_nodes_of_eks_only() -> None:
    names = [NODES[0], "web.example.com", "shop/web-0", "underutilized-7f3a"]
    assert [without_domain(name) for name in names] == ["ip-10-0-0-8", "web.example.com", "shop/web-0", names[-1]]
