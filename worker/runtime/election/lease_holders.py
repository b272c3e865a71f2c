"""Decides whether the holder of a Lease may be a controller of nodes, so that Tenon must stand by for it.

Kubernetes' own role `edit` lets every tenant create Leases in a namespace, so a Lease alone proves nothing. It counts
in namespaces that an administrator names, or if its holder is a Pod of that namespace whose ServiceAccount may write
NodeClaims: a client that may do that can disturb Tenon anyway.

The API server is asked when a Lease gets another holder, and again after `RECHECK_SECONDS` while the holder renews it.
A Lease that is not renewed keeps its answer: a Pod that was killed still counts until its Lease expires.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import PODS, SUBJECT_ACCESS_REVIEWS
from tenon.apis.json_object import JsonObject
from worker.log_rate_limit import LogRateLimiter
from worker.runtime.election.lease import IDENTITY_PREFIX

log = loggers.LEADER_ELECTION

RECHECK_SECONDS = 30.0
"""Seconds after which the API server is asked again about a holder that renews its Lease."""
MAX_ASKED = 8
"""The maximum number of Leases that one check asks about. The requests of many false Leases must delay no renewal."""
ENDED = ("Succeeded", "Failed")
_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Key = tuple[str, str]
"""Namespace and name of a Lease."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the API server said about the holder of a Lease."""

    holder: str
    counts: bool
    asked_at: float
    doubted: bool = False
    """The holder counted before and did not in the last answer. It may have ended just after its last renewal, so it
    counts until it renews again.
    """


class LeaseHolders:
    """Remembers which Leases are held by a controller. ``namespaces``: there, every Lease counts."""

    def __init__(self, kube: Kube, namespaces: Collection[str]) -> None:
        self._kube = kube
        self._namespaces = frozenset(namespaces)
        self._answers: dict[Key, _Answer] = {}
        self._renewals: dict[Key, str] = {}
        """The renewTime of each Lease in the last check."""
        self._log_limiter = LogRateLimiter()

    async def controllers(self, leases: Mapping[Key, JsonObject]) -> set[Key]:
        """The Leases that count.

        Raises:
            ApiError: the API server did not answer.
        """
        counted = {key for key in leases if key[0] in self._namespaces}
        others = {key: lease for key, lease in leases.items() if key not in counted}
        self._answers = {key: answer for key, answer in self._answers.items() if key in others}
        clock = asyncio.get_running_loop().time()
        due = [key for key, lease in others.items() if self._is_due(key, lease, clock)]
        self._renewals = {key: _renewed(lease) for key, lease in others.items()}
        for key in sorted(due, key=self._asked_at)[:MAX_ASKED]:
            holder, before = _holder(others[key]), self._answers.get(key)
            counts = await self._controls_nodes(key[0], holder)
            counted_before = before is not None and before.holder == holder and before.counts and not before.doubted
            doubted = counted_before and not counts
            self._answers[key] = _Answer(holder, counts or doubted, clock, doubted)
        return counted | {key for key, lease in others.items() if self._counts(key, lease)}

    def _is_due(self, key: Key, lease: JsonObject, clock: float) -> bool:
        holder, answer = _holder(lease), self._answers.get(key)
        if not holder:
            return False  # a released Lease keeps the answer about its last holder
        if answer is None or answer.holder != holder:
            return True
        renewed = self._renewals.get(key) != _renewed(lease)
        return renewed and (answer.doubted or clock >= answer.asked_at + RECHECK_SECONDS)

    def _asked_at(self, key: Key) -> float:
        return self._answers[key].asked_at if key in self._answers else float("-inf")

    def _counts(self, key: Key, lease: JsonObject) -> bool:
        answer = self._answers.get(key)
        return answer is not None and answer.counts and _holder(lease) in ("", answer.holder)

    async def _controls_nodes(self, namespace: str, holder: str) -> bool:
        """Whether the holder is a Pod whose ServiceAccount may write NodeClaims."""
        name = pod_of(holder)
        pod = await self._kube.get(PODS, name, namespace) if name else None
        if pod is None or (pod.get("status") or {}).get("phase") in ENDED:
            return False
        account = (pod.get("spec") or {}).get("serviceAccountName") or "default"
        try:
            for verb in ("patch", "update"):
                if await self._allowed(namespace, account, verb):
                    return True
        except ForbiddenError as error:
            # To stand by for a false Lease costs time. To act while Karpenter leads would buy nodes twice.
            if self._log_limiter.count("review") is not None:
                log.warning(
                    "The worker may not ask which rights the holder of a Lease has, and stands by for it: "
                    "ClusterRole tenon must allow create of subjectaccessreviews",
                    extra={"namespace": namespace, "holder": holder, "error": str(error)},
                )
            return True
        return False

    async def _allowed(self, namespace: str, account: str, verb: str) -> bool:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        review = access_review(f"system:serviceaccount:{namespace}:{account}", groups, verb)
        answer = await self._kube.create(SUBJECT_ACCESS_REVIEWS, {"spec": review})
        return bool((answer.get("status") or {}).get("allowed"))


def pod_of(holder: str) -> str:
    """The name of the Pod in the identity of a holder, or an empty string if the identity begins with no such name."""
    name = holder.removeprefix(IDENTITY_PREFIX).rpartition("_")[0]
    return name if _POD_NAME.fullmatch(name) else ""


def _holder(lease: JsonObject) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _renewed(lease: JsonObject) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")


def access_review(user: str, groups: Sequence[str], verb: str) -> JsonObject:
    """The spec of a SubjectAccessReview about NodeClaims."""
    resource = {"group": "karpenter.sh", "resource": "nodeclaims", "verb": verb}
    return {"user": user, "groups": list(groups), "resourceAttributes": resource}
