"""What belongs to a cluster, by the tags that Tenon writes and by the path of its instance profiles.

A teardown cannot be undone, so all of the tags must be there. A sweep is content with fewer, because it compares with
NodeClaims. A teardown may have none to compare with.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels

AUTO_MODE = "EKS Auto Mode or another AWS service manages it"
"""Why an instance stays although its tags name the cluster."""


def owns(tags: Mapping[str, str], cluster: str) -> bool:
    """Whether what has these tags was created by Tenon, or by Karpenter, for the cluster of this name."""
    return (
        bool(cluster)
        and tags.get(labels.TAG_CLUSTER) == cluster
        and tags.get(labels.owned_tag(cluster)) == "owned"
        and bool(tags.get(labels.TAG_NODEPOOL))
    )


def profile_path(region: str, cluster: str) -> str:
    """Return how the paths of the cluster's instance profiles begin. The UID of the EC2NodeClass follows."""
    return f"/karpenter/{region}/{cluster}/"


def owns_profile(path: str, region: str, cluster: str) -> bool:
    """Whether an instance profile with this path was created for an EC2NodeClass of the cluster."""
    beginning = profile_path(region, cluster)
    uid = path.removeprefix(beginning).removesuffix("/")
    return bool(cluster) and path == f"{beginning}{uid}/" and bool(uid) and "/" not in uid
