"""What Reserved Instances and Savings Plans cover, and what of them is left for a cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.ec2.commitments.coverage import (
    NO_COVERAGE,
    AccountCommitments,
    RunningInstance,
    allowed_commitments,
    coverage_of,
)
from tenon.ec2.commitments.pools import with_commitments_of
from tenon.ec2.commitments.purchases import reserved_instances, savings_plan
from tenon.kube.claim_record import ClaimRecord, provider_id_of
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import Commitment
from tests.tenon.scheduling.builders import CATALOG, need, pool

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FAMILIES = {"m5": "large xlarge 2xlarge metal", "c5": "large", "g5": "xlarge 2xlarge", "t3": "nano micro"}
TYPES = [f"{family}.{size}" for family, sizes in FAMILIES.items() for size in sizes.split()]
VCPUS = {"m5.large": 2, "m5.xlarge": 4, "c5.large": 2}
ZONE_A, ZONE_B = "us-west-2a", "us-west-2b"


def bought(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """Reserved Instances as EC2 describes them."""
    return {
        "InstanceType": name,
        "InstanceCount": count,
        "Scope": "Region",
        "ProductDescription": "Linux/UNIX",
        "InstanceTenancy": "default",
        "State": "active",
        "End": NOW + timedelta(days=1),
        **more,
    }


def amounts(*descriptions: dict[str, Any]) -> dict[str, int]:
    return {item.name: item.remaining for item in reserved_instances(descriptions, TYPES, NOW)}


def test_reserved_instances_of_the_region_cover_all_sizes_of_a_family() -> None:
    (commitment,) = reserved_instances([bought("m5.xlarge", 2), bought("m5.large")], TYPES, NOW)
    assert (commitment.name, commitment.remaining) == ("Reserved Instances of m5", 2 * 800 + 400)
    assert commitment.units == {"m5.large": 400, "m5.xlarge": 800, "m5.2xlarge": 1600, "m5.metal": 1600}


def test_sizes_follow_awss_normalization_factors() -> None:
    (small,) = reserved_instances([bought("t3.micro")], TYPES, NOW)
    assert small.units == {"t3.nano": 25, "t3.micro": 50}
    (metal,) = reserved_instances([bought("m7i.large")], ["m7i.large", "m7i.metal-24xl", "m7i.metal-48xl"], NOW)
    assert metal.units == {"m7i.large": 400, "m7i.metal-24xl": 24 * 800, "m7i.metal-48xl": 48 * 800}


def test_some_reserved_instances_cover_one_type() -> None:
    zonal = bought("m5.large", 3, Scope="Availability Zone", AvailabilityZone=ZONE_B)
    first, second = reserved_instances([bought("g5.xlarge", 2), zonal], TYPES, NOW)
    assert first == Commitment("Reserved Instances of m5.large in us-west-2b", 3, {"m5.large": 1}, ZONE_B)
    assert second == Commitment("Reserved Instances of g5.xlarge", 2, {"g5.xlarge": 1})


def test_what_covers_no_node_of_linux_in_shared_tenancy_does_not_count() -> None:
    assert (
        amounts(
            bought("m5.large", ProductDescription="Windows"),
            bought("m5.large", ProductDescription="Red Hat Enterprise Linux"),
            bought("m5.large", InstanceTenancy="dedicated"),
            bought("m5.large", State="retired"),
            bought("m5.large", End=NOW),
        )
        == {}
    )
    assert amounts(bought("m5.large", ProductDescription="Linux/UNIX (Amazon VPC)")) == {
        "Reserved Instances of m5": 400
    }


def rate(name: str, dollars: str, **more: Any) -> dict[str, Any]:
    properties = {
        "region": "us-west-2",
        "instanceType": name,
        "productDescription": "Linux/UNIX",
        "tenancy": "shared",
        **more.pop("properties", {}),
    }
    return {
        "rate": dollars,
        "productType": "EC2",
        "usageType": f"USW2-BoxUsage:{name}",
        "properties": [{"name": key, "value": value} for key, value in properties.items()],
        **more,
    }


def plan(**more: Any) -> dict[str, Any]:
    return {"savingsPlanId": "sp-1", "state": "active", "savingsPlanType": "Compute", "commitment": "0.50", **more}


def test_a_savings_plan_covers_types_at_its_own_rates() -> None:
    rates = [
        rate("m5.large", "0.0576"),
        rate("c5.large", "0.0510000001"),
        rate("x9.large", "0.1"),
        rate("m5.large", "9", usageType="USW2-UnusedBox:m5.large"),
        rate("m5.xlarge", "1", properties={"productDescription": "Windows"}),
        rate("m5.xlarge", "1", properties={"tenancy": "dedicated"}),
        rate("m5.xlarge", "1", properties={"region": "eu-west-1"}),
        rate("m5.2xlarge", "1", productType="Fargate"),
        rate("g5.xlarge", "not a number"),
    ]
    commitment = savings_plan(plan(), rates, "us-west-2", TYPES)
    assert commitment == Commitment("Savings Plan sp-1", 500_000, {"m5.large": 57_600, "c5.large": 51_001})


def test_a_savings_plan_for_other_things_covers_no_node() -> None:
    rates = [rate("m5.large", "0.0576")]
    for other in ({"savingsPlanType": "SageMaker"}, {"state": "retired"}, {"commitment": "0"}, {"commitment": "NaN"}):
        assert savings_plan(plan(**other), rates, "us-west-2", TYPES) is None
    assert savings_plan(plan(), [], "us-west-2", TYPES) is None


FAMILY = Commitment("ri", 1600, {"m5.large": 400, "m5.xlarge": 800})
EVERYTHING = Commitment("sp", 200_000, {"m5.large": 57_600, "m5.xlarge": 115_200, "c5.large": 51_000})


def runs(name: str, kind: str = "m5.large", cluster: str = "", **more: Any) -> RunningInstance:
    return RunningInstance(
        name, kind, more.pop("zone", ZONE_A), is_on_demand=more.pop("is_on_demand", True), cluster=cluster, **more
    )


def claim(name: str, *kinds: str, capacity_type: str = "on-demand", launched: bool = True, **more: Any) -> ClaimRecord:
    terms = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(kinds)},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": capacity_type.split("|")},
        *more.pop("terms", []),
    ]
    own = {
        labels.INSTANCE_TYPE: kinds[0],
        labels.ZONE: ZONE_A,
        labels.CAPACITY_TYPE: capacity_type,
        labels.OS: more.pop("system", "linux"),
    }
    metadata = {"name": name, "labels": own if launched else {}, "annotations": more.pop("annotations", {})}
    status = {"providerID": provider_id_of(ZONE_A, f"i-{name}")} if launched else {}
    return ClaimRecord.of({"metadata": metadata, "spec": {"requirements": terms}, "status": status})


def left(account: AccountCommitments, *claims: ClaimRecord) -> list[int]:
    return [commitment.remaining for commitment in coverage_of(account, claims).remaining]


def test_aws_uses_what_comes_first_and_then_the_next() -> None:
    """Reserved Instances first, and a Savings Plan for what they do not cover."""
    account = AccountCommitments((FAMILY, EVERYTHING))
    claims = [claim(f"n{number}", "m5.xlarge") for number in range(3)]
    coverage = coverage_of(account, claims)
    assert sorted(coverage.covered.values()) == ["ri", "ri", "sp"]
    assert [commitment.remaining for commitment in coverage.remaining] == [0, 200_000 - 115_200]


def test_a_node_that_is_covered_in_part_counts_as_not_covered_and_uses_up_the_rest() -> None:
    account = AccountCommitments((Commitment("ri", 600, FAMILY.units),))
    coverage = coverage_of(account, [claim("n", "m5.xlarge")])
    assert coverage.covered == {}
    assert coverage.remaining[0].remaining == 0


def test_what_is_not_covered_uses_nothing() -> None:
    account = AccountCommitments((FAMILY,))
    dedicated = {"key": labels.TENANCY, "operator": "In", "values": [labels.DEDICATED]}
    assert left(
        account,
        claim("spot", "m5.xlarge", capacity_type="spot"),
        claim("other", "c5.large"),
        claim("dedicated", "m5.xlarge", terms=[dedicated]),
        claim("windows", "m5.xlarge", terms=[{"key": labels.OS, "operator": "In", "values": ["windows"]}]),
        claim("windows-class", "m5.xlarge", system="windows"),
        claim("stopped", "m5.xlarge", annotations={labels.WARM: "stopped"}),
    ) == [1600]


def test_a_claim_that_is_not_launched_counts_with_its_largest_type() -> None:
    """It may become any of them, and on demand if EC2 has no spot capacity."""
    account = AccountCommitments((FAMILY,))
    assert left(account, claim("n", "m5.large", "m5.xlarge", "c5.large", launched=False)) == [800]
    assert left(account, claim("n", "m5.large", capacity_type="spot|on-demand", launched=False)) == [1200]


def test_without_the_account_nothing_is_covered() -> None:
    assert coverage_of(None, [claim("n", "m5.large")]) is NO_COVERAGE


def test_instances_of_others_use_commitments_first() -> None:
    running = [runs("i-other", "m5.xlarge"), runs("i-n"), runs("i-spot", "m5.xlarge", is_on_demand=False)]
    account = allowed_commitments([FAMILY], running, {"i-n"}, "a", VCPUS)
    assert account.allowed[0].remaining == 800
    assert left(account, claim("n", "m5.large")) == [400]


def test_an_instance_that_was_launched_while_the_account_was_read_is_the_clusters_own() -> None:
    """No NodeClaim has its ID yet. Its tags say that it will."""
    running = [runs("i-n", "m5.xlarge", "a", has_node_class=True)]
    account = allowed_commitments([Commitment("ri", 800, FAMILY.units)], running, set(), "a", VCPUS)
    assert coverage_of(account, [claim("n", "m5.xlarge")]).covered == {"n": "ri"}


def test_instances_of_the_cluster_that_are_not_of_nodeclaims_use_commitments_first() -> None:
    """Those of managed node groups are tagged with the cluster too, and plans do not count them."""
    account = allowed_commitments([FAMILY], [runs("i-group", "m5.xlarge", "a")], set(), "a", VCPUS)
    assert left(account) == [800]


def test_clusters_share_what_is_left_in_proportion_to_what_they_run() -> None:
    """Cluster a runs three quarters of the vCPUs, of which 8 are spot."""
    running = [
        runs("i-n", "m5.xlarge", "a"),
        *(runs(f"i-s{number}", "m5.xlarge", "a", is_on_demand=False) for number in range(2)),
        runs("i-b", "m5.xlarge", "b"),
        runs("i-without-cluster", "c5.large"),
    ]
    commitment = Commitment("ri", 5600, FAMILY.units)
    of_a = allowed_commitments([commitment], running, {"i-n"}, "a", VCPUS)
    of_b = allowed_commitments([commitment], running, {"i-b"}, "b", VCPUS)
    assert left(of_a, claim("n", "m5.xlarge")) == [3000]
    assert left(of_b, claim("b", "m5.xlarge")) == [1000]


def test_a_cluster_without_nodes_has_no_share_beside_others() -> None:
    running = [runs("i-b", "m5.large", "b")]
    assert left(allowed_commitments([FAMILY], running, set(), "a", VCPUS)) == [0]
    assert left(allowed_commitments([FAMILY], [], set(), "a", VCPUS)) == [1600]


def test_only_nodes_of_linux_in_shared_tenancy_use_commitments() -> None:
    windows = Requirements.of(need(labels.OS, "In", "windows"))
    pools = [
        pool("linux"),
        pool("windows", need(labels.OS, "In", "windows")),
        pool("windows-class", types=[replace(kind, requirements=windows) for kind in CATALOG]),
        pool("dedicated", need(labels.TENANCY, "In", labels.DEDICATED)),
    ]
    with_them = {
        item.name: item.commitments for item in with_commitments_of(pools, [FAMILY, Commitment("used", 0, {})])
    }
    assert with_them == {"linux": (FAMILY,), "windows": (), "windows-class": (), "dedicated": ()}


INSTANCES = st.lists(
    st.tuples(
        st.sampled_from(["m5.large", "m5.xlarge", "c5.large"]),
        st.sampled_from(["a", "b", ""]),
        st.sampled_from([ZONE_A, ZONE_B]),
        st.booleans(),
    ),
    max_size=8,
)
KINDS = st.lists(st.sampled_from(["m5.large", "m5.xlarge", "c5.large"]), max_size=4)


@given(
    instances=INSTANCES,
    kinds=KINDS,
    bought_amounts=st.tuples(st.integers(0, 2), st.integers(0, 4000), st.integers(0, 300_000)),
)
def test_two_clusters_never_use_more_than_was_bought(
    instances: list[tuple[str, str, str, bool]], kinds: list[str], bought_amounts: tuple[int, int, int]
) -> None:
    """Each may use all that it was allowed, before either reads the account again."""
    zonal, family, everything = bought_amounts
    commitments = [
        Commitment("zonal", zonal, {"m5.large": 1}, ZONE_B),
        Commitment("ri", family, FAMILY.units),
        Commitment("sp", everything, EVERYTHING.units),
    ]
    spot = [(kind, cluster, ZONE_A, False) for kind, cluster in (("m5.large", "a"), ("m5.xlarge", "b"))]
    running = [
        RunningInstance(f"i-{n}", kind, zone, on_demand, cluster)
        for n, (kind, cluster, zone, on_demand) in enumerate([*instances, *spot])
    ]
    own = {name: {item.id for item in running if item.cluster == name} for name in "ab"}
    allowed = {name: allowed_commitments(commitments, running, own[name], name, VCPUS).allowed for name in "ab"}
    for number, commitment in enumerate(commitments):
        assert sum(account[number].remaining for account in allowed.values()) <= commitment.remaining
    claims = [claim(f"n{number}", kind) for number, kind in enumerate(kinds)]
    coverage = coverage_of(AccountCommitments(allowed["a"]), claims)
    for before, after in zip(allowed["a"], coverage.remaining, strict=True):
        covered = [kind for n, kind in enumerate(kinds) if coverage.covered.get(f"n{n}") == before.name]
        assert sum(before.units[kind] for kind in covered) <= before.remaining - after.remaining
        assert after.remaining >= 0
