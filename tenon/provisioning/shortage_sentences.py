"""What pods that wait for cheaper capacity say, and when Tenon asks EC2 for it again.

The provisioner's workflow says it too, so this module needs no part of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from tenon.apis import labels
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.unavailable import concerns_types
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.kube.timestamps import next_attempt
from tenon.money import per_hour, price_text
from tenon.sentences import counted

if TYPE_CHECKING:  # most plans wait for nothing, and load no messages
    from tenon.messages.provisioning import ShortageWait


def price_obstacle(wait: ShortageWait) -> Obstacle:
    """Say on a pod what it waits for, and how it can stop."""
    return Obstacle(
        ObstacleKind.CAPACITY,
        _prices(wait),
        wait.until,
        f"the pod waits because {labels.SHORTAGE_POLICY} of the NodePool is Wait; annotate the pod with "
        f"{labels.SHORTAGE_POLICY}=Buy to get the node now",
    )


def waiting_sentence(wait: ShortageWait) -> str:
    """Say the same about all pods that wait for a NodePool."""
    example = f", such as {wait.pod}," if wait.pods > 1 else f" ({wait.pod})"
    verb = "wait" if wait.pods > 1 else "waits"
    return (
        f"{counted(wait.pods, 'pod')}{example} {verb} for a cheaper node: NodePool {wait.pool}: {_prices(wait)}: "
        f"{next_attempt(wait.until)}"
    )


def still_waiting(
    waits: Iterable[ShortageWait], backoffs: Mapping[OfferingKey, Backoff], now: datetime
) -> list[ShortageWait]:
    """Return the waits of which EC2 still refuses the usual type, each with the time of the next attempt by now.

    EC2 may have refused it again since the plan that they are from. ``backoffs``: what plans avoid now.
    """
    current: list[ShortageWait] = []
    for wait in waits:
        own = [backoff.probe_at for key, backoff in backoffs.items() if concerns_types(key, [wait.usual_type])]
        if own:
            current.append(evolve(wait, until=max(now, min(own))))
    return current


def _prices(wait: ShortageWait) -> str:
    nodes = f"{wait.usual_count} nodes {wait.usual_type}" if wait.usual_count > 1 else wait.usual_type
    return (
        f"EC2 refused {nodes} at {per_hour(wait.usual_price)}, and the cheapest node left is "
        f"{wait.instance_type} at {price_text(wait.price)}"
    )
