"""Reads Spot placement scores for the NodePools of a live cluster that follow them, as the worker does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.spot_scores import SpotScoresReader
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.capacity_reservations import region_of
from tenon.scheduling.model import Pool
from tenon.scheduling.offerings.spot_scores import configuration_of


class LiveScores:
    """Asks AWS once for each NodePool.

    The region is that of the classes' subnets, because the shell's may be another one. If AWS refuses or does not
    answer, plans choose zones without scores, as the worker's, and a note says why.
    """

    def __init__(self, node_classes: Iterable[EC2NodeClass], notes: list[str]) -> None:
        self._node_classes = list(node_classes)
        self._notes = notes
        self._scores: dict[str, Mapping[str, int]] = {}

    def scores_of(self, pool: Pool) -> Mapping[str, int]:
        """Return the scores of the NodePool by zone ID; empty if they are not known."""
        if pool.name not in self._scores:
            self._scores[pool.name] = self._read(pool)
        return self._scores[pool.name]

    def _read(self, pool: Pool) -> Mapping[str, int]:
        configuration = configuration_of(pool)
        if configuration is None:
            return {}
        regions = {region_of(subnet.zone) for own in self._node_classes for subnet in own.status.subnets} - {""}
        if len(regions) != 1:
            self._notes.append(
                f"NodePool {pool.name}: Spot placement scores are not used: the EC2NodeClasses have no subnets of one "
                "region"
            )
            return {}
        try:
            return SpotScoresReader(Ec2(regions.pop())).read(configuration)
        except EC2Error as error:
            self._notes.append(
                f"NodePool {pool.name}: Spot placement scores are not known, and the plan uses none: {error.explained}"
            )
            return {}
