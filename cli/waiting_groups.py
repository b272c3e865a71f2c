"""The pods without a node of a simulation, grouped by what they wait for. It needs no client of Temporal."""

from __future__ import annotations

from collections.abc import Iterable

from cli.simulating.simulation import Simulation
from tenon.kube.timestamps import from_epoch
from tenon.scheduling.explanation.waiting import WaitsFor
from tenon.simulation.waiting_pods import PodGroup, pod_groups


def groups_of(simulation: Simulation) -> list[PodGroup]:
    """Return the groups of a simulation of a live cluster."""
    cache = simulation.cache
    created = {pod.key: from_epoch(pod.pod.created) for pod in cache.pods}
    starting = [
        node.name if (node := cache.node_of(claim)) is not None else claim.name
        for claim in cache.claims
        if not claim.initialized
    ]
    return pod_groups(simulation.document, created, starting)


def require_causes(simulation: Simulation, groups: Iterable[PodGroup]) -> None:
    """Check that the catalogue can say why no node is bought, if that is the cause of a group.

    Raises:
        InputError: it is one of another region.
    """
    if any(group.waits_for is WaitsFor.NOTHING_FITS for group in groups):
        simulation.require_catalogue()
