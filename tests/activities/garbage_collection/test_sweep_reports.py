"""What a sweep only counts, reports or corrects: the objects stay."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from tenon.messages.garbage_collection import Figures
from tests.activities.garbage_collection.lost import LATER, Cluster
from tests.activities.node.fake_kube import stamp

pytestmark = pytest.mark.integration


async def test_another_controllers_finalizer_is_reported_and_starts_no_workflow(lost: Cluster) -> None:
    """A claim that only others hold: an event that names the finalizer, and no life without end."""
    lost.put_claim("held", "", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/audit"])
    lost.late = LATER
    result = await lost.sweep()
    assert result.figures["foreign_finalizer"] == Figures(findings=1)
    assert await lost.open() == set()
    hold = {"finalizer": "example.com/audit"}
    assert REGISTRY.get_sample_value("tenon_nodeclaims_foreign_finalizers", hold) == 1
    event = next(event for event in lost.recorder.events if event[2] == "HeldByFinalizer")
    assert event[:2] == ("NodeClaim", "held")
    assert "example.com/audit" in event[3]
    lost.kube.objects.clear()
    await lost.sweep()
    assert REGISTRY.get_sample_value("tenon_nodeclaims_foreign_finalizers", hold) == 0


async def test_dis74_what_an_instance_is_in_the_network_is_corrected_on_its_claim(lost: Cluster) -> None:
    """Nodes of older releases and of Karpenter do not say it, and somebody may change the groups of an instance."""
    subnet, groups = "tenon.sh/subnet-id", "tenon.sh/security-group-ids"
    provider_ids = {name: lost.buy(name, Name=f"node-{name}") for name in ("older", "edited", "leaving")}
    lost.put_claim("older", provider_ids["older"], "Registered")
    lost.put_claim("edited", provider_ids["edited"], "Registered", annotations={groups: "sg-0", "kept": "x"})
    lost.put_claim("leaving", provider_ids["leaving"], "Registered", deletionTimestamp=stamp(lost.now()))
    await lost.sweep()

    def annotations(name: str) -> dict[str, str]:
        return dict(lost.kube.objects["nodeclaims", "", name]["metadata"].get("annotations") or {})

    raw = lost.ec2.ec2.describe_instances(InstanceIds=[provider_ids["older"].rsplit("/", 1)[-1]])
    instance = raw["Reservations"][0]["Instances"][0]
    expected = {subnet: instance["SubnetId"], groups: instance["SecurityGroups"][0]["GroupId"]}
    assert annotations("older") == expected
    assert annotations("edited") == {**expected, "kept": "x"}
    assert annotations("leaving") == {}
    patches = [call for call in lost.kube.calls if call[0] == "patch"]
    await lost.sweep()
    assert [call for call in lost.kube.calls if call[0] == "patch"] == patches, "what is right is not written again"
