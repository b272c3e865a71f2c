"""What a teardown takes for a cluster's own, so that nothing of another cluster ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenon.teardown.ownership import owns, owns_profile, profile_path

NAMES = st.sampled_from(["prod", "prod-2", "pro", "a", "prod.eu"])


def tags_of(cluster: str) -> dict[str, str]:
    return {
        "eks:eks-cluster-name": cluster,
        f"kubernetes.io/cluster/{cluster}": "owned",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/nodeclaim": "default-x",
    }


@given(NAMES, NAMES)
def test_a_launchs_tags_belong_to_exactly_one_cluster(cluster: str, other: str) -> None:
    assert owns(tags_of(cluster), other) == (cluster == other)


@given(NAMES, st.sampled_from(["eks:eks-cluster-name", "kubernetes.io/cluster/{}", "karpenter.sh/nodepool"]))
def test_what_lacks_one_of_the_tags_belongs_to_no_cluster(cluster: str, key: str) -> None:
    tags = tags_of(cluster)
    del tags[key.format(cluster)]
    assert not owns(tags, cluster)


def test_a_managed_node_group_and_shared_resources_do_not_belong() -> None:
    group = {"eks:cluster-name": "prod", "kubernetes.io/cluster/prod": "owned", "eks:nodegroup-name": "system"}
    assert not owns(group, "prod")
    assert not owns({**tags_of("prod"), "kubernetes.io/cluster/prod": "shared"}, "prod")


def test_no_name_owns_nothing() -> None:
    assert not owns({"eks:eks-cluster-name": "", "kubernetes.io/cluster/": "owned", "karpenter.sh/nodepool": "a"}, "")
    assert not owns_profile("/karpenter/us-west-2//uid/", "us-west-2", "")


@given(NAMES, NAMES)
def test_a_profile_belongs_to_the_cluster_in_its_path(cluster: str, other: str) -> None:
    path = f"{profile_path('us-west-2', cluster)}0b6c/"
    assert owns_profile(path, "us-west-2", other) == (cluster == other)


def test_a_profile_of_another_region_or_depth_does_not_belong() -> None:
    assert not owns_profile("/karpenter/us-east-1/prod/0b6c/", "us-west-2", "prod")
    assert not owns_profile("/karpenter/us-west-2/prod/", "us-west-2", "prod")
    assert not owns_profile("/karpenter/us-west-2/prod/0b6c/more/", "us-west-2", "prod")
    assert not owns_profile("/karpenter/us-west-2/prod/0b6c", "us-west-2", "prod")
