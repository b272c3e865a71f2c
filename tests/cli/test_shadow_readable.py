"""What ``tenon shadow`` says at once of a cluster that it can never follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ForbiddenError, NotFoundError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES, PODS
from cli.shadowing.readable import UnreadableClusterError, require_readable

READ = (PODS, NODES, NODECLAIMS, NODEPOOLS, EC2NODECLASSES)


class Answers:
    """An API server that refuses the named resources."""

    host = "https://cluster"

    def __init__(self, refusals: Mapping[str, ApiError]) -> None:
        self._refusals = refusals

    async def request(self, method: str, path: str, **_more: Any) -> bytes:
        assert method == "GET"
        if error := self._refusals.get(path.rpartition("/")[2]):
            raise error
        return b"{}"


async def refusal(**refusals: ApiError) -> str:
    with pytest.raises(UnreadableClusterError) as raised:
        await require_readable(cast("Kube", Answers(refusals)), READ)
    return str(raised.value)


def missing() -> ApiError:
    return NotFoundError(404, "NotFound", "page not found")


def forbidden() -> ApiError:
    return ForbiddenError(403, "Forbidden", "no")


async def test_a_cluster_that_can_be_followed_is_accepted() -> None:
    await require_readable(cast("Kube", Answers({})), READ)


async def test_a_cluster_without_karpenter_is_named_and_asked_for() -> None:
    text = await refusal(nodepools=missing(), nodeclaims=missing(), ec2nodeclasses=missing())
    assert "The cluster at https://cluster has no ec2nodeclasses.karpenter.k8s.aws, nodeclaims.karpenter.sh" in text
    assert "is it the one that Karpenter 1.0 or newer runs?" in text


async def test_a_karpenter_of_another_provider_needs_manifests() -> None:
    assert "so its Karpenter is of another provider: -f must name" in await refusal(ec2nodeclasses=missing())


async def test_resources_that_the_user_may_not_list_are_all_named() -> None:
    text = await refusal(nodes=forbidden(), nodepools=forbidden())
    assert "may not list nodepools.karpenter.sh, nodes in all namespaces" in text
    assert "deploy/chart/files/shadow-rules.yaml" in text


async def test_credentials_that_are_rejected_name_the_cluster() -> None:
    text = await refusal(pods=ApiError(401, "Unauthorized", "Unauthorized"))
    assert text.startswith("The API server at https://cluster rejects the credentials of the kubeconfig")


async def test_other_errors_of_the_api_server_stay_what_they_are() -> None:
    with pytest.raises(ApiError, match="500"):
        await require_readable(cast("Kube", Answers({"pods": ApiError(500, "InternalError", "down")})), READ)
