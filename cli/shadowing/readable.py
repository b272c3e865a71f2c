"""Checks what the cluster serves and its user may read, because a watch retries for minutes what no retry resolves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ForbiddenError, NotFoundError
from activities.kubernetes.resources import EC2NODECLASSES, Resource
from tenon.errors import TenonError

UNAUTHORIZED = 401


class UnreadableClusterError(TenonError):
    """The cluster has no Karpenter that the shadow can follow, or the user may not read it."""


async def require_readable(kube: Kube, resources: Sequence[Resource]) -> None:
    """Read one object of each resource.

    Raises:
        ApiError: the API server does not answer.
        UnreadableClusterError: it does not serve one of the resources, or refuses to list it.
    """
    missing: list[Resource] = []
    refused: list[Resource] = []

    async def look(resource: Resource) -> None:
        try:
            await kube.request("GET", resource.path(), query={"limit": "1"})
        except NotFoundError:
            missing.append(resource)
        except ForbiddenError:
            refused.append(resource)
        except ApiError as error:
            if error.status != UNAUTHORIZED:
                raise
            raise UnreadableClusterError(
                f"The API server at {kube.host} rejects the credentials of the kubeconfig (401 Unauthorized): log in "
                "again, or set KUBECONFIG to another file"
            ) from None

    await asyncio.gather(*map(look, resources))
    if missing == [EC2NODECLASSES]:
        raise UnreadableClusterError(
            f"The cluster at {kube.host} has no EC2NodeClasses, so its Karpenter is of another provider: "
            "-f must name NodePools and EC2NodeClasses that take the place of the cluster's"
        )
    if missing:
        raise UnreadableClusterError(
            f"The cluster at {kube.host} has no {_names(missing)}: is it the one that Karpenter 1.0 or newer runs?"
        )
    if refused:
        raise UnreadableClusterError(
            f"The kubeconfig's user may not list {_names(refused)} in all namespaces: it needs the rights "
            "get, list and watch of the ClusterRole in deploy/chart/files/shadow-rules.yaml"
        )


def _names(resources: Sequence[Resource]) -> str:
    return ", ".join(sorted(f"{resource.plural}.{resource.group}".rstrip(".") for resource in resources))
