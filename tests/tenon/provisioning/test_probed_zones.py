"""A NodeClaim probes only offerings in its own zones."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.capacity_probes import one_for_each_offering, probed_keys
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.builders import ON_DEMAND, asking, catalog, entry, need, pool, problem


def test_pods_of_two_zones_have_a_probe_each() -> None:
    """Or pods of the second zone would wait until the claim of the first has failed."""
    zones = ("us-west-2a", "us-west-2b")
    pods = [asking(zone, need(labels.ZONE, "In", zone), ON_DEMAND, cpu="3") for zone in zones]
    plan = solve(problem(pods, pool(types=catalog(entry("g5.xlarge", 4, 16, 1.0)))))
    due = {OfferingKey(labels.ON_DEMAND, "g5.xlarge", zone) for zone in zones}
    probes = one_for_each_offering(plan, due)
    assert {key.zone: claim.pods[0].name for claim in probes for key in probed_keys(claim, due)} == {
        zone: zone for zone in zones
    }
