"""What the account's vCPU quotas leave, and what plans make of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.ec2.quotas import ON_DEMAND, SPOT, quota_code
from tenon.apis import labels
from tenon.ec2.refusals.known_quotas import (
    QUOTA_CODES,
    KnownQuotas,
    VcpuQuota,
    known_quotas,
    ruled_out,
    with_claims,
    within_quotas,
)
from tenon.ec2.refusals.vcpu_quotas import STANDARD, quota_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.kube.timestamps import format_instant
from tenon.scheduling.model import Plan, PlannedClaim
from tests.tenon.scheduling.builders import catalog, entry, pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
VCPUS = {"g4dn.xlarge": 4, "g5.48xlarge": 192, "p4d.24xlarge": 96, "m5.large": 2, "c5.24xlarge": 96}
GPU = (labels.ON_DEMAND, "G and VT")


def gpus(limit: int, used: int = 0) -> KnownQuotas:
    return KnownQuotas(NOW, {GPU: VcpuQuota(limit, used)}, VCPUS)


def test_every_code_is_of_the_quota_that_its_types_count_against() -> None:
    """The sandbox has a table of its own, after AWS's."""
    assert QUOTA_CODES.keys() == ON_DEMAND.keys() | SPOT.keys()
    families = ("m5", "g5", "gr6", "vt1", "p4d", "p5", "f1", "x2iezn", "inf2", "trn1", "dl1", "u-6tb1", "hpc7g")
    for name in (f"{family}.xlarge" for family in families):
        for capacity_type in (labels.ON_DEMAND, labels.SPOT):
            if code := quota_code(name, capacity_type):
                assert QUOTA_CODES[code] == (capacity_type, quota_of(name, capacity_type)), name


def test_instances_count_by_their_vcpus_and_capacity_type() -> None:
    running = [("g4dn.xlarge", labels.ON_DEMAND), ("g4dn.xlarge", labels.SPOT), ("m5.large", labels.ON_DEMAND)]
    account_quotas = known_quotas({"L-DB2E81BA": 64.0, "L-1216C47A": 256.0, "L-unknown": 1.0}, running, VCPUS, NOW)
    assert account_quotas.quotas == {GPU: VcpuQuota(64, 4), (labels.ON_DEMAND, STANDARD): VcpuQuota(256, 2)}


def test_a_quota_of_which_more_is_used_than_it_has_is_unknown() -> None:
    """EC2 granted more than Service Quotas says. It would keep pods pending for ever."""
    running = [("g4dn.xlarge", labels.ON_DEMAND)] * 3
    assert known_quotas({"L-DB2E81BA": 12.0}, running, VCPUS, NOW).quotas == {GPU: VcpuQuota(12, 12)}
    assert known_quotas({"L-DB2E81BA": 11.0}, running, VCPUS, NOW).quotas == {}


def test_a_dedicated_instance_counts_against_no_quota_that_is_read() -> None:
    tenancy = Requirements.of(Requirement.new(labels.TENANCY, IN, (labels.DEDICATED,)))
    plan = Plan(claims=(replace(claim(0), requirements=tenancy), claim(1)))
    kept_plan, without_room = within_quotas(plan, gpus(0))
    assert kept_plan.claims == plan.claims[:1]
    assert without_room == {"default/p1"}
    newer = record("a", NOW + timedelta(seconds=5), *tenancy.to_selectors())
    assert with_claims(gpus(64), [newer]).quotas == gpus(64).quotas


def test_a_quota_without_room_rules_out_all_its_types_or_those_that_are_too_large() -> None:
    assert ruled_out(gpus(0)) == {OfferingKey.of_quota(*GPU)}
    assert ruled_out(gpus(64, 61)) == {OfferingKey.of_quota(*GPU)}
    assert ruled_out(gpus(64)) == {OfferingKey(labels.ON_DEMAND, "g5.48xlarge", "")}
    assert ruled_out(gpus(192)) == frozenset()


@given(st.integers(0, 60), st.integers(0, 20))
def test_a_plan_asks_only_for_what_the_quota_has_room_for(limit: int, count: int) -> None:
    claims = [claim(number) for number in range(count)]
    plan, without_room = within_quotas(Plan(claims=tuple(claims)), gpus(limit))
    assert sum(VCPUS[item.offering.instance_type] for item in plan.claims) <= limit
    assert len(plan.claims) == min(count, limit // 4)
    assert len(without_room) == count - len(plan.claims)
    assert without_room == plan.unschedulable.keys()


def test_a_pod_says_which_quota_has_no_room_and_what_to_do() -> None:
    plan, _ = within_quotas(Plan(claims=(claim(0),)), gpus(64, 62))
    assert str(plan.unschedulable["default/p0"]) == (
        "NodePool gpu: its node needs 4 vCPUs, and of the 64 vCPUs of the account's on-demand quota G and VT, 62 are "
        "used: ask AWS for a larger quota, or remove instances"
    )


def test_nodes_that_a_full_spot_quota_has_no_room_for_are_bought_on_demand() -> None:
    """And their pods get a place at once. A quota of EC2's own answer would cost a launch of each."""
    types = catalog(entry("m5.large", 2, 8, 0.1), entry("c5.24xlarge", 96, 192, 4.0))
    either_type = Requirements.of(Requirement.new(labels.CAPACITY_TYPE, IN, (labels.SPOT, labels.ON_DEMAND)))
    offering = OfferingKey(labels.SPOT, "m5.large", "us-west-2a")
    claims = [replace(claim(number, "m5.large"), requirements=either_type, offering=offering) for number in range(3)]
    quotas = {(labels.SPOT, STANDARD): VcpuQuota(8, 5), (labels.ON_DEMAND, STANDARD): VcpuQuota(64, 62)}
    plan, without_room = within_quotas(Plan(claims=tuple(claims)), KnownQuotas(NOW, quotas, VCPUS), lambda _: types)
    first, second = plan.claims
    assert first is claims[0]
    assert second.requirements.labels() == {labels.CAPACITY_TYPE: labels.ON_DEMAND}
    assert (second.offering.capacity_type, second.price) == (labels.ON_DEMAND, 0.1)
    assert without_room == {"default/p2"}
    why = str(plan.unschedulable["default/p2"])
    assert "of the 8 vCPUs of the account's spot quota Standard, 5 are used and 2 planned:" in why
    cut, _ = within_quotas(Plan(claims=tuple(claims)), KnownQuotas(NOW, quotas, VCPUS))
    assert cut.claims == (claims[0],), "a claim whose types are not known stays what it is"


def test_a_spot_quota_of_one_group_of_families_leaves_spot_of_others_alone() -> None:
    account_quotas = KnownQuotas(NOW, {(labels.SPOT, "G and VT"): VcpuQuota(0, 0)}, VCPUS)
    plan, _ = within_quotas(Plan(claims=(claim(0, "m5.large"), claim(1))), account_quotas)
    assert [item.offering.instance_type for item in plan.claims] == ["m5.large", "g4dn.xlarge"]
    assert ruled_out(account_quotas) == {OfferingKey.of_quota(labels.SPOT, "G and VT")}


def test_nodeclaims_that_are_newer_than_the_reading_count() -> None:
    """The next plan follows within seconds, and the next reading within minutes."""
    older, newer = NOW - timedelta(seconds=5), NOW + timedelta(seconds=5)
    already_read = record("a", older, launched=older)
    account_quotas = with_claims(gpus(64), [already_read, record("b", newer), record("c", newer, deleting=True)])
    assert account_quotas.quotas[GPU] == VcpuQuota(64, 4)


def test_a_nodeclaim_counts_that_was_created_before_the_reading_and_launched_after_it() -> None:
    """EC2 had no instance of it yet when the instances were read."""
    early = NOW - timedelta(minutes=2)
    in_flight = record("a", early)
    later = record("b", early, launched=NOW + timedelta(seconds=5))
    already_read = record("c", early, launched=NOW - timedelta(seconds=5))
    assert with_claims(gpus(64), [in_flight, later, already_read]).quotas[GPU] == VcpuQuota(64, 8)


def test_a_nodeclaim_that_waits_for_long_uses_no_quota() -> None:
    """A breaker may hold it back for hours, because of its EC2NodeClass. Other NodePools have nothing to do with it."""
    assert with_claims(gpus(64), [record("a", NOW - timedelta(hours=5))]).quotas == gpus(64).quotas


def claim(number: int, kind: str = "g4dn.xlarge") -> PlannedClaim:
    offering = OfferingKey(labels.ON_DEMAND, kind, "us-west-2a")
    return PlannedClaim("gpu", (pod(f"p{number}"),), (kind,), Requirements(), {}, 0.5, offering)


def record(
    name: str, created: datetime, *more_terms: Any, deleting: bool = False, launched: datetime | None = None
) -> ClaimRecord:
    metadata: dict[str, Any] = {"name": name, "creationTimestamp": format_instant(created)}
    if deleting:
        metadata["deletionTimestamp"] = format_instant(created)
    terms = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["g5.48xlarge", "g4dn.xlarge"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        *more_terms,
    ]
    launch = (
        {"type": "Launched", "status": "True", "lastTransitionTime": format_instant(launched)} if launched else None
    )
    status = {"conditions": [launch] if launch else []}
    return ClaimRecord.of({"metadata": metadata, "spec": {"requirements": terms}, "status": status})
