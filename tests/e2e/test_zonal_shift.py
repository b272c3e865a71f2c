"""A zonal shift as a user sees it: new nodes stay away from the zone while it lasts."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL

AWAY, OTHER = "us-west-2a", "us-west-2b"


async def test_aws016_act15_evt07_new_nodes_stay_away_from_a_shifted_zone(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube
) -> None:
    zones = {"key": labels.ZONE, "operator": "In", "values": [AWAY, OTHER]}
    pool = await make_pool(requirements=[*SMALL, zones], consolidate_after="Never")
    node_class = await kube.get(EC2NODECLASSES, pool.name)
    assert node_class is not None
    zone_id = next(subnet["zoneID"] for subnet in node_class["status"]["subnets"] if subnet["zone"] == AWAY)
    sandbox.ec2().shift_zone(zone_id)
    try:
        await pool.seen(pool.name, "ZonalShiftActive", AWAY)
        spread = {
            "maxSkew": 1,
            "topologyKey": labels.ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": f"{pool.name}-web"}},
        }
        await pool.deploy(2, topologySpreadConstraints=[spread])
        await pool.running(2)
        assert {claim["metadata"]["labels"][labels.ZONE] for claim in await pool.settled(2)} == {OTHER}
    finally:
        sandbox.ec2().shift_zone(zone_id, away=False)
    await pool.seen(pool.name, "ZonalShiftCleared", AWAY)
