"""Settings that bear on what is asked of AWS: the cluster, prices, and how often node classes are looked through."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster, version_by_eks
from activities.ec2.errors import EC2Error, ThrottledError
from activities.ec2.pricing import TTL_SECONDS, Pricing
from activities.ec2.provider import Ec2Provider
from activities.ec2.ttl_cache import Refresh, TtlCache
from activities.nodeclass.cluster_version import KEPT, ClusterVersion
from sandbox.ec2.images import KUBERNETES
from tenon.apis.conditions import is_true
from tests.ec2.samples import node_claim, node_class
from worker.runtime.assembly import _ec2
from worker.settings import Settings, SettingsError

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(server: Server, action: str) -> int:
    return len(server.world.calls.listing(action))


def test_set21_the_operator_knows_better_than_eks_how_nodes_reach_the_cluster(clients: Ec2) -> None:
    cluster = describe_cluster(clients, "sandbox", endpoint="https://10.0.0.1", ca_bundle="YWJj")
    assert (cluster.endpoint, cluster.ca_bundle) == ("https://10.0.0.1", "YWJj")
    assert cluster.service_cidr
    asked_of_eks = describe_cluster(clients, "sandbox")
    assert asked_of_eks.endpoint not in ("", "https://10.0.0.1")
    assert asked_of_eks.ca_bundle != "YWJj"


def test_set23_the_version_is_the_api_servers_unless_eks_is_to_be_asked(clients: Ec2) -> None:
    assert describe_cluster(clients, "sandbox", server_version="1.30").kubernetes_version == "1.30"
    assert describe_cluster(clients, "sandbox").kubernetes_version.startswith("1.")


@pytest.mark.refuses("eks:DescribeCluster")  # of another cluster
def test_set21_set23_a_cluster_that_is_not_eks_needs_endpoint_and_authority(clients: Ec2) -> None:
    cluster = describe_cluster(clients, "kops", endpoint="https://10.0.0.1", ca_bundle="YWJj", server_version="1.36")
    assert (cluster.name, cluster.endpoint, cluster.service_cidr, cluster.kubernetes_version) == (
        "kops",
        "https://10.0.0.1",
        "",
        "1.36",
    )
    for left_out in ({"ca_bundle": "YWJj"}, {"endpoint": "https://10.0.0.1"}):
        with pytest.raises(EC2Error):
            describe_cluster(clients, "kops", server_version="1.36", **left_out)
    with pytest.raises(EC2Error):
        describe_cluster(clients, "kops", endpoint="https://10.0.0.1", ca_bundle="YWJj")


@pytest.mark.parametrize(
    "fault",
    [
        EndpointConnectionError(endpoint_url="https://eks.us-west-2.amazonaws.com"),
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}, "DescribeCluster"),
    ],
    ids=["no way to EKS", "no right"],
)
def test_set21_set22_where_eks_cannot_be_asked_the_settings_are_enough(
    clients: Ec2, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    """A private cluster: its VPC has no endpoint for EKS, or the role no right to it."""

    def refused(**_: str) -> None:
        raise fault

    monkeypatch.setattr(clients.eks, "describe_cluster", refused)
    cluster = describe_cluster(clients, "own", endpoint="https://10.0.0.1", ca_bundle="YWJj", server_version="1.36")
    assert (cluster.endpoint, cluster.kubernetes_version, cluster.service_cidr) == ("https://10.0.0.1", "1.36", "")
    (record,) = caplog.records
    assert "failed to describe the EKS cluster" in record.message
    assert "DescribeCluster" in str(vars(record)["error"])
    with pytest.raises(EC2Error):
        describe_cluster(clients, "own", endpoint="https://10.0.0.1", server_version="1.36")


@pytest.mark.parametrize(
    ("code", "reason"),
    [("AccessDeniedException", "Unauthorized"), ("ResourceNotFoundException", "ClusterCIDRResolutionFailed")],
)
def test_ecs7_the_service_range_is_requested_again_until_eks_returns_it(
    clients: Ec2, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    """AWS-097: a fault at the start must not keep AL2023 nodes away until a restart."""

    def refused(**_: str) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeCluster")

    with monkeypatch.context() as broken:
        broken.setattr(clients.eks, "describe_cluster", refused)
        cluster = describe_cluster(
            clients, "sandbox", endpoint="https://10.0.0.1", ca_bundle="YWJj", server_version=KUBERNETES
        )
        assert cluster.service_cidr == ""
        provider = Ec2Provider(clients, cluster)
        written = node_class({}, role="KarpenterNodeRole-sandbox")
        statuses = {
            condition.type: (condition.status, condition.reason)
            for condition in provider.resolve_node_class(written).conditions
        }
        assert statuses["ValidationSucceeded"] == ("False", reason)
        other = node_class({}, role="KarpenterNodeRole-sandbox", amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        assert is_true(provider.resolve_node_class(other).conditions, "ValidationSucceeded"), "it needs no range"
    status = provider.resolve_node_class(written)
    assert is_true(status.conditions, "Ready")
    assert provider.cluster.service_cidr == describe_cluster(clients, "sandbox").service_cidr
    assert provider.cluster.endpoint == "https://10.0.0.1"
    late = Ec2Provider(clients, cluster)  # another replica, which launches from what the first one resolved
    late.prepare_launch(node_claim(name="late-range"), written.model_copy(update={"status": status}), 1)
    assert late.cluster.service_cidr == provider.cluster.service_cidr


def test_set21_a_throttle_is_no_answer(clients: Ec2, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is begun again a moment later learns the range of service addresses."""

    def refused(**_: str) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slower"}}, "DescribeCluster")

    monkeypatch.setattr(clients.eks, "describe_cluster", refused)
    with pytest.raises(ThrottledError):
        describe_cluster(clients, "own", endpoint="https://10.0.0.1", ca_bundle="YWJj", server_version="1.36")


async def test_set23_an_upgrade_of_the_control_plane_is_noticed_without_a_restart(clients: Ec2) -> None:
    """Images are then chosen for the new version; while nobody answers, for the last that is known."""
    clock = Clock()
    answers: list[str | Exception] = ["1.36", EC2Error("Down", "nobody answers"), "1.37"]

    async def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    version = ClusterVersion("1.35", ask, clock)
    observations = []
    for _ in range(4):
        observations.append(await version.current())
        assert await version.current() == observations[-1], "an answer is used for a while"
        clock.now += KEPT
    assert observations == ["1.35", "1.36", "1.36", "1.37"]
    assert version_by_eks(clients, "sandbox").startswith("1.")


def test_set22_in_an_isolated_vpc_the_price_list_is_never_asked(clients: Ec2, server: Server) -> None:
    """Spot prices are EC2's own, which has an endpoint in the VPC."""
    clock = Clock()
    before = asked(server, "GetProducts")
    pricing = Pricing(clients, clock, isolated=True)
    version, prices = pricing.current()
    assert asked(server, "GetProducts") == before
    assert prices.on_demand["m5.large"] > 0
    assert prices.spot
    clock.now = TTL_SECONDS - 1  # complete as it is: nothing is asked again before its time
    spot_before = asked(server, "DescribeSpotPriceHistory")
    assert pricing.current()[0] == version
    assert asked(server, "DescribeSpotPriceHistory") == spot_before


def test_a_price_table_that_cannot_be_used_stops_the_worker(clients: Ec2, server: Server) -> None:
    """A worker that planned with other prices than its operator gave would buy wrong nodes."""
    settings = Settings(cluster_name="sandbox", price_table="/none/prices.json")
    with pytest.raises(SettingsError, match=r"PRICE_TABLE cannot be used: The file /none/prices\.json cannot be read"):
        _ec2(clients, settings, "1.33", "")


def test_set29_what_is_to_be_looked_up_less_often_is_used_again(clients: Ec2, server: Server) -> None:
    refresh = Refresh(images=timedelta(hours=1), subnets=timedelta(minutes=1))
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"), refresh=refresh)
    spec = node_class(role="KarpenterNodeRole-sandbox")
    first = provider.resolve_node_class(spec)
    images, subnets = asked(server, "DescribeImages"), asked(server, "DescribeSubnets")
    assert provider.resolve_node_class(spec).amis == first.amis
    assert asked(server, "DescribeImages") == images
    assert asked(server, "DescribeSubnets") > subnets


def test_n15_365_n15_474_security_groups_have_an_interval_of_their_own(clients: Ec2, server: Server) -> None:
    often = timedelta(minutes=1)
    refresh = Refresh(images=often, subnets=often, security_groups=timedelta(hours=1))
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"), refresh=refresh)
    spec = node_class(role="KarpenterNodeRole-sandbox")
    first = provider.resolve_node_class(spec)
    groups, subnets = asked(server, "DescribeSecurityGroups"), asked(server, "DescribeSubnets")
    assert provider.resolve_node_class(spec).security_groups == first.security_groups
    assert asked(server, "DescribeSecurityGroups") == groups
    assert asked(server, "DescribeSubnets") > subnets
    assert Refresh(security_groups=often).period == often


def test_set29_by_default_every_look_at_a_class_asks_for_all(clients: Ec2, server: Server) -> None:
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    assert provider.refresh.period == timedelta(minutes=10)
    spec = node_class(role="KarpenterNodeRole-sandbox")
    provider.resolve_node_class(spec)
    images = asked(server, "DescribeImages")
    provider.resolve_node_class(spec)
    assert asked(server, "DescribeImages") > images


def test_an_answer_is_used_until_its_time_is_over_and_an_empty_one_never() -> None:
    clock = Clock()
    answers: list[list[int]] = [[], [1], [2]]
    ttl_cache: TtlCache[int] = TtlCache(60, clock)

    def ask() -> list[int]:
        return answers.pop(0)

    assert ttl_cache.get("terms", ask) == []
    assert ttl_cache.get("terms", ask) == [1]
    clock.now = 59.0
    assert ttl_cache.get("terms", ask) == [1]
    clock.now = 60.0
    assert ttl_cache.get("terms", ask) == [2]
