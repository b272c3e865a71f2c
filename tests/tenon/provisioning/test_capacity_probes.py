"""Which pods a NodeClaim may be made for that asks EC2 whether it has capacity again."""

from __future__ import annotations

from tenon.provisioning.capacity_probes import pods_to_probe_for
from tests.tenon.scheduling.builders import pod

CLAIM = ("default/data",)


def test_sch070_no_node_is_bought_for_a_pod_that_waits_for_the_claim_of_another() -> None:
    """The first pod has a place, and gets the claim that only one pod at a time may use."""
    first, second = pod("one", exclusive=CLAIM), pod("two", exclusive=CLAIM)
    assert pods_to_probe_for([first, second], {second.key}, turn=0) == []


def test_a_pod_that_only_refused_offerings_would_fit_has_a_probe_whatever_claims_others_use() -> None:
    first, second = pod("one", exclusive=CLAIM), pod("two", exclusive=("default/other",))
    assert pods_to_probe_for([first, second], {second.key}, turn=0) == [second]
    assert first in pods_to_probe_for([first, second], {first.key, second.key}, turn=0)
