"""What nodes were bought as, for limits on costs."""

from __future__ import annotations

import json

from tenon.apis import labels
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tenon.provisioning.cost_limits import BoughtOffering
from tests.worker.cache.cluster_state import state
from tests.worker.cache.objects import claim, node
from worker.cache.purchases import purchases

M5 = {labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a", labels.CAPACITY_TYPE: labels.SPOT}
OF_POOL = {labels.NODEPOOL: "pool"}


def test_a_launched_claim_counts_as_its_offering_also_while_it_leaves() -> None:
    meta = {
        "labels": OF_POOL | M5,
        "annotations": {labels.LAUNCH_PRICE: "0.04"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    assert purchases(state(claims=[claim(meta=meta)], nodes=[node()])) == [
        BoughtOffering("pool", "m5.large", "us-west-2a", labels.SPOT, launch_price=0.04)
    ]


def test_a_claim_without_an_instance_counts_with_the_most_that_it_may_cost() -> None:
    for name in ("hourly-cost", "total-hourly-cost"):
        largest = f'{{"cpu": "4", "tenon.sh/{name}": "250000"}}'
        starting = claim(node_name="", meta={"labels": OF_POOL, "annotations": {labels.LARGEST_CAPACITY: largest}})
        assert purchases(state(claims=[starting])) == [BoughtOffering("pool", at_most=250_000)]
    assert purchases(state(claims=[claim(node_name="")])) == [BoughtOffering("pool")]


def test_a_node_without_a_claim_counts_for_the_nodepool_that_its_label_names() -> None:
    ours, foreign = node("a", meta={"labels": OF_POOL | M5}), node("b", meta={"labels": {labels.NODEPOOL: "theirs"}})
    cluster_state = state(nodes=[ours, foreign, node("c")])
    assert purchases(cluster_state) == []
    cluster_state.pools.on_event("pool", _pool("pool"))
    assert purchases(cluster_state) == [BoughtOffering("pool", "m5.large", "us-west-2a", labels.SPOT)]


def _pool(name: str) -> ObjectRecord:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    body = {"metadata": {"name": name}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}
    return decode_object(json.dumps(body).encode())
