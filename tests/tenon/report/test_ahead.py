"""What comes: expiries, drift, limits; and which nodes a page draws."""

from __future__ import annotations

from datetime import timedelta

from tenon.apis import labels
from tenon.kube.timestamps import format_instant
from tenon.page.style import OTHERS, PALETTE
from tenon.report.ahead import ahead
from tenon.report.drawn_nodes import NO_POOL, namespace_colors, pool_groups
from tests.tenon.report.clusters import NOW, Cluster
from tests.tenon.report.stories import DRIFTED

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def test_expiries_of_the_next_days_come_in_order_and_a_kept_node_expires_later() -> None:
    cluster = Cluster()
    cluster.node("web", age=20 * HOUR, expireAfter="24h")
    cluster.node("web", age=23 * HOUR, expireAfter="24h")
    kept_meta = {"annotations": {labels.KEEP_UNTIL: format_instant(NOW + DAY)}}
    cluster.node("web", age=22 * HOUR, expireAfter="24h", meta=kept_meta)
    cluster.node("web", age=HOUR, expireAfter="720h")
    cluster.node("web", age=HOUR)
    leaving = {"deletionTimestamp": format_instant(NOW), "finalizers": [labels.TERMINATION_FINALIZER]}
    cluster.node("web", age=20 * HOUR, expireAfter="24h", meta=leaving)
    expiries = ahead(cluster.live()).expiries
    assert [(expiry.node.name, expiry.at) for expiry in expiries] == [
        ("ip-10-0-0-2", NOW + HOUR),
        ("ip-10-0-0-1", NOW + 4 * HOUR),
        ("ip-10-0-0-3", NOW + DAY),
    ]


def test_drift_says_why_and_since_when() -> None:
    cluster = Cluster()
    cluster.node("web", conditions=[DRIFTED])
    cluster.node("web")
    (drift,) = ahead(cluster.live()).drifts
    assert drift.why.startswith("AMIDrift: ami-0a1")
    assert drift.since == NOW - 5 * HOUR


def test_limits_that_are_nearly_used_up() -> None:
    cluster = Cluster()
    cluster.pool("web", limits={"cpu": "100", "memory": "1000Gi"}, status={"resources": {"cpu": "81", "memory": "1Gi"}})
    cluster.pool("few", limits={"nodes": "2"})
    cluster.pool("none", limits={"cpu": "0"})
    cluster.pool("odd", limits={"cpu": "many"})
    for _ in range(2):
        cluster.node("few")
    limits = [(use.pool, use.resource, use.used, use.limit, use.share) for use in ahead(cluster.live()).limits]
    assert limits == [("few", "nodes", 2, 2, 1.0), ("none", "cpu", 0, 0, 1.0), ("web", "cpu", 81000, 100000, 0.81)]


def test_pools_come_by_cost_and_their_nodes_by_use() -> None:
    cluster = Cluster()
    cluster.pods("shop/api", 1, cluster.node("cheap", "m5.large"))
    cluster.pods("shop/api", 1, cluster.node("dear", "g5.xlarge"))
    cluster.pods("shop/api", 3, cluster.node("dear", "g5.xlarge"))
    cluster.node("", "m5.large")
    groups = pool_groups(cluster.live().nodes)
    assert [group.name for group in groups] == ["dear", "cheap", NO_POOL]
    assert [drawn_node.first.name for drawn_node in groups[0].drawn_nodes] == ["ip-10-0-0-3", "ip-10-0-0-2"]


def test_equal_nodes_of_a_large_cluster_are_drawn_once() -> None:
    cluster = Cluster()
    for number in range(60):
        node = cluster.node("web", zone=f"us-west-2{'abc'[number % 3]}", age=number * HOUR)
        cluster.pods("shop/api", 3, node)
        if number == 7:
            cluster.pods("shop/other", 1, node)
    (group,) = pool_groups(cluster.live().nodes)
    assert [len(drawn_node.nodes) for drawn_node in group.drawn_nodes] == [1, 59]
    assert group.totals.nodes == 60


def test_a_page_draws_only_so_many_nodes_and_counts_the_others() -> None:
    cluster = Cluster()
    for number in range(50):
        cluster.pods(f"shop/app{number}", 1, cluster.node("web" if number < 30 else "batch"))
    groups = pool_groups(cluster.live().nodes, most=40)
    assert [(group.name, len(group.drawn_nodes), len(group.other_nodes)) for group in groups] == [
        ("web", 30, 0),
        ("batch", 10, 10),
    ]


def test_the_largest_namespaces_have_colors_of_their_own() -> None:
    cluster = Cluster()
    node = cluster.node("web", "m5.2xlarge")
    for number in range(12):
        cluster.pods(f"ns{number:02}/app", 1, node, f"{100 + number}m", "1Mi")
    colors = namespace_colors(cluster.live().nodes)
    assert next(iter(colors)) == "ns11"
    assert [colors[f"ns{number:02}"] for number in (11, 10, 4)] == [PALETTE[0], PALETTE[1], PALETTE[7]]
    assert {colors[f"ns{number:02}"] for number in range(4)} == {OTHERS}
