"""Remembers which NodeClaims were bought for pods that may still wait, to say which of them EC2 had no capacity for.

A NodeClaim without capacity ends at once, and its pods come back in a later batch while plans avoid what was refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.pod import Pod
from tenon.money import per_hour
from tenon.provisioning.capacity_shortage import TriedLaunch, is_reported, what_ec2_lacks
from tenon.scheduling.model import Plan, PlannedClaim
from tenon.sentences import counted

_REMEMBERED = 50_000
_LAUNCHES = 10
"""How many launches are remembered for each pod. What older ones asked for is no longer unavailable."""


@dataclass(slots=True)
class _Tried:
    launches: tuple[TriedLaunch, ...] = ()
    is_open: bool = False
    """Whether the outcome of the newest launch is not counted yet."""
    refused: int = 0


class TriedLaunches:
    """The launches for each pod, and how many of them EC2 had no capacity for."""

    def __init__(self) -> None:
        self._tried: OrderedDict[str, _Tried] = OrderedDict()
        """By the UID of the pod."""

    def bought(self, claims: Iterable[PlannedClaim]) -> None:
        """Record the NodeClaims that were written for pods."""
        for claim in claims:
            launch = TriedLaunch(claim.pool, claim.offering, claim.instance_types)
            for pod in (pod for pod in claim.pods if not pod.buffer):
                tried = self._tried.setdefault(pod.uid, _Tried())
                tried.launches, tried.is_open = (*tried.launches, launch)[-_LAUNCHES:], True
                self._tried.move_to_end(pod.uid)
        while len(self._tried) > _REMEMBERED:
            self._tried.popitem(last=False)

    def count(self, pods: Iterable[Pod], unavailable: UnavailableOfferings) -> list[TriedLaunch]:
        """Count what EC2 refused for pods that need a plan again. Return each refused launch once.

        Args:
            pods: the pods of the batch.
            unavailable: the offerings that plans avoid.
        """
        refused: dict[int, TriedLaunch] = {}
        for pod in pods:
            tried = self._tried.get(pod.uid)
            if tried is None or not tried.is_open:
                continue
            tried.is_open = False
            newest = tried.launches[-1]
            if newest.cheapest in unavailable:
                tried.refused += 1
                refused[id(newest)] = newest
        return list(refused.values())

    def reasons(
        self, plan: Plan, unavailable: UnavailableOfferings, dear: Collection[PlannedClaim] = ()
    ) -> dict[str, str]:
        """Say what EC2 lacks for pods for which the plan buys another NodeClaim, by the key of the pod.

        A pod gets a reason after its second refused NodeClaim, and whenever their number has doubled, or after the
        first one if the other NodeClaim is one of ``dear``. The plan itself says it of pods without a place.
        """
        lacking = dict[tuple[int, ...], str]()

        def lacks(tried: _Tried) -> str:
            launches = tuple(launch for launch in tried.launches if launch.cheapest in unavailable)
            same = tuple(map(id, launches))
            if same not in lacking:
                lacking[same] = what_ec2_lacks(launches, unavailable)
            return lacking[same]

        reasons: dict[str, str] = {}
        dear_claims = {id(claim) for claim in dear}
        for claim in plan.claims:
            for pod in claim.pods:
                tried = self._tried.get(pod.uid)
                if tried is None or not (
                    is_reported(tried.refused) or (tried.refused == 1 and id(claim) in dear_claims)
                ):
                    continue
                if text := lacks(tried):
                    refused = counted(tried.refused, "NodeClaim")
                    instead = f"Tenon tries {claim.offering.instance_type} at {per_hour(claim.price)} now"
                    reasons[pod.key] = f"{text}; {refused} found no capacity, and {instead}"
        return reasons
