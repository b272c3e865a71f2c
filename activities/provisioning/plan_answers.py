"""What a plan answered about a pod, for how long the answer holds, and whether a NodeClaim covers a pod without one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from activities.cluster_view.interfaces import ClusterView, Fingerprint
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.unused_nodes import UnusedNodes
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod

NOMINATED_FOR = timedelta(seconds=20)
"""How long kube-scheduler has to bind a pod to the node that a plan found for it (CTL-33)."""
TAINTED_FOR = timedelta(minutes=5)
"""How long after its initialization a node covers its planned pods while a taint that no one declared keeps them away.
A slow CNI sets such a taint, and on a second node it would be just as slow. Tenon does not remove the node as empty
during this time (`HELD_SECONDS` in `worker/cache/planned_places.py`)."""

WITHOUT_LIMIT = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class PlanAnswer:
    """What a plan answered about a pod, and when the pod is planned again."""

    again_at: datetime
    attempts: int
    fingerprint: object
    """None means that the answer stays valid when the cluster changes."""
    node: str = ""
    pod: Pod | None = None
    """The state of the pod when it fitted nowhere."""
    pool: tuple[str, int | None] | None = None
    """The name and generation of the NodePool whose NodeClaim for the pod the API server refused."""
    refused_since: datetime | None = None
    """Since when plans have put the pod on nodes that are ready, and kube-scheduler has not."""
    paused: bool = False
    """Whether an event on the pod says that Tenon buys no node for it at present."""
    in_shortage: bool = False
    """EC2 refused some offerings when the pod fitted nowhere."""
    launches_after: tuple[str, str] | None = None
    """The NodePool and capacity type that launch the pod's node when they have launched others."""


class AnswerValidity:
    """Which answers of plans hold at one moment. Reads the NodeClaims only if pods depend on what was launched."""

    def __init__(
        self,
        view: ClusterView,
        refusals: LaunchRefusals,
        unused: UnusedNodes,
        now: datetime,
        fingerprint: Fingerprint,
        refused: Collection[str],
    ) -> None:
        """``refused``: the NodeClaims that EC2 refuses, which cover no pod."""
        self._view = view
        self._refusals = refusals
        self._unused = unused
        self._now = now
        self._fingerprint = fingerprint
        self._refused = refused
        self._free: dict[tuple[str, str], bool] = {}

    def holds(self, pod: Pod, answer: PlanAnswer | None) -> bool:
        """Whether what a plan said of the pod still holds; False if no plan said anything."""
        if answer is None or self._now >= answer.again_at:
            return False
        if answer.node and (answer.node in self._refused or not self._view.place_of(answer.node)):
            return False
        if answer.pod is not None and answer.pod is not pod and scheduling_key(answer.pod) != scheduling_key(pod):
            return False
        if answer.pool is not None and answer.pool[1] != self._generations.get(answer.pool[0]):
            return False
        if answer.in_shortage and self._shows_capacity:
            return False
        if answer.launches_after is not None and self._launches_freely(answer.launches_after):
            return False
        if answer.paused and self._unused.pause_of(pod, self._now) is None:
            return False
        return answer.fingerprint is None or answer.fingerprint == relevant_part(pod, self._fingerprint)

    def covered_until(self, pod: Pod) -> datetime | None:
        """Until when a NodeClaim covers the pod, unless something changes before; None if none covers it. One that EC2
        refuses covers none.

        A pod that must leave its node moves to the new one whenever the drain allows it, so its claim covers it without
        a time limit. kube-scheduler binds a pending pod to the new node at once, or when the taint goes that an agent
        has set there, or not at all.
        """
        ends = [
            self._coverage_end(claim, pod) for claim in self._view.claims_for(pod) if claim.name not in self._refused
        ]
        return max((end for end in ends if end > self._now), default=None)

    def _coverage_end(self, claim: ClaimRecord, pod: Pod) -> datetime:
        since = claim.initialized_at
        if pod.node_name or since is None:
            return WITHOUT_LIMIT
        end = since + NOMINATED_FOR
        if end <= self._now and self._view.undeclared_taint(claim, pod):
            return since + TAINTED_FOR
        return end

    @cached_property
    def _generations(self) -> dict[str, int | None]:
        return generations(self._view)

    @cached_property
    def _shows_capacity(self) -> bool:
        """Whether EC2 launched an instance of an offering after it refused it."""
        return bool(self._refusals.reopened(self._view.all_claims()))

    def _launches_freely(self, subject: tuple[str, str]) -> bool:
        """Whether a NodePool may launch more nodes of scarce types, in a capacity type."""
        if subject not in self._free:
            self._free[subject] = self._refusals.free_launches(self._view.all_claims(), *subject) > 0
        return self._free[subject]


def generations(view: ClusterView) -> dict[str, int | None]:
    """Return the generation of each NodePool."""
    return {pool.metadata.name: pool.metadata.generation for pool in view.node_pools()}


def growing(first: timedelta, attempts: int, longest: timedelta) -> timedelta:
    """The pause after so many attempts, which doubles each time up to the longest."""
    doublings = min(max(0, attempts - 1), 20)  # a pod may wait for weeks, and more doublings would overflow timedelta
    return min(first * (1 << doublings), longest)


def relevant_part(pod: Pod, fingerprint: Fingerprint) -> object:
    """The part of the fingerprint that affects whether the pod fits.

    It includes namespaces only if the pod selects them: they change often, and few pods select any.
    """
    selects = any(term.namespace_selector is not None for term in pod.rules.terms)
    return fingerprint if selects else fingerprint.supply


def scheduling_key(pod: Pod) -> tuple[object, ...]:
    """The properties of a pending pod that can change and that affect where it fits."""
    return (
        pod.unsupported,
        pod.volume_terms,
        pod.attachments,
        pod.labels,
        pod.requests,
        pod.tolerations,
        pod.buys_in_shortage,
    )
