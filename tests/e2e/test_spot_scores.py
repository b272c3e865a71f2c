"""WSH-39: Spot placement scores as a user sees them: spot nodes go to the zone that EC2 scores best."""

from __future__ import annotations

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ec2.authorization.identities import with_spot_scores_policy
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

SCORES = {"usw2-az2": 2, "usw2-az1": 9, "usw2-az3": 3, "usw2-az4": 1}
"""By zone ID: us-west-2a, b, c and d."""


async def test_wsh39_spot_nodes_go_to_the_zone_with_the_highest_score(
    make_pool: MakePool, sandbox: Sandbox, worker: Worker, kube: Kube, tenon: Run
) -> None:
    if not isinstance(worker, WorkerProcess):
        pytest.skip("the role of the worker in a pod is that of its installation")
    ec2 = sandbox.ec2()
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    ec2.policy(with_spot_scores_policy())
    try:
        ec2.spot_scores(SCORES)
        ec2.clear_calls()
        # Types that EC2 refused to an earlier test may make the zone dearer.
        await kube.patch(NODEPOOLS, pool.name, {"metadata": {"annotations": {labels.SPOT_PLACEMENT_SCORES: "100%"}}})

        async def is_read() -> bool:
            return any(call["status"] == 200 for call in ec2.calls("GetSpotPlacementScores"))

        await until(is_read)
        await pool.deploy(2)
        await pool.running(2)
        claims = await pool.settled(2)
        for claim in claims:
            assert claim["metadata"]["labels"][labels.CAPACITY_TYPE] == labels.SPOT
            assert claim["metadata"]["labels"][labels.ZONE] == "us-west-2b"
            explanation = claim["metadata"]["annotations"][labels.EXPLANATION]
            assert f"{labels.SPOT_PLACEMENT_SCORES}: a score of at least 9 in us-west-2b" in explanation
        facts = tenon("explain", "nodepool", pool.name).stdout
        assert "us-west-2a 2, us-west-2b 9, us-west-2c 3" in " ".join(facts.split())
        assert "may read Spot placement scores" in tenon("doctor").stdout
    finally:
        ec2.policy(None)
        ec2.spot_scores({})
