"""What ``tenon pause`` and ``tenon resume`` write: DisruptionFreezes of their own, one for each NodePool or for all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError, NotFoundError
from activities.kubernetes.resources import DISRUPTIONFREEZES, NODEPOOLS
from tenon.apis import labels
from tenon.apis.disruptionfreeze import MAX_TEXT, DisruptionFreeze
from tenon.apis.validation import parse
from tenon.errors import TenonError
from tenon.kube.timestamps import format_instant

EVERY = "pause"
"""The name of the freeze of all NodePools. That of one NodePool has its name behind it."""
PAUSES = f"{labels.PAUSE}=true"


class PauseError(TenonError):
    """A pause cannot be written or lifted."""


def name_of(pool: str) -> str:
    """Return the name of the freeze that pauses a NodePool; of all NodePools if it is empty."""
    return f"{EVERY}-{pool}" if pool else EVERY


async def pause(kube: Kube, pools: Sequence[str], until: datetime | None, by: str, reason: str) -> list[str]:
    """Pause NodePools, or all if none is named. A pause of the same NodePool is replaced. Return the freezes' names.

    Raises:
        PauseError: a NodePool does not exist, or the API server has no DisruptionFreezes.
    """
    for pool in pools:
        if await kube.get(NODEPOOLS, pool) is None:
            raise PauseError(f"There is no NodePool {pool}.")
    names = [name_of(pool) for pool in pools or [""]]
    for name, pool in zip(names, pools or [""], strict=True):
        spec: dict[str, Any] = {
            "reason": reason[:MAX_TEXT],
            "requestedBy": by[:MAX_TEXT],
            "endTime": format_instant(until) if until is not None else None,
        }
        if pool:
            spec["nodePools"] = [pool]
        body = {"metadata": {"name": name, "labels": {labels.PAUSE: "true"}}, "spec": spec}
        try:
            await kube.create(DISRUPTIONFREEZES, _without_nulls(body))
        except ConflictError:
            await kube.patch(DISRUPTIONFREEZES, name, {"spec": spec})
        except NotFoundError:
            raise PauseError(
                "The API server does not serve disruptionfreezes.tenon.sh: apply its CustomResourceDefinition."
            ) from None
    return names


async def resume(kube: Kube, pools: Sequence[str], now: datetime) -> list[str]:
    """Lift the pauses of NodePools, or all pauses if none is named. Return the names of those that had not ended.

    Raises:
        PauseError: a NodePool that is named is not paused by a pause of its own.
    """
    every = await pauses(kube)
    open_names = {freeze.metadata.name for freeze in every if not has_ended(freeze, now)}
    names = [name_of(pool) for pool in pools] or [freeze.metadata.name for freeze in every]
    lifted = [name for name in names if await kube.delete(DISRUPTIONFREEZES, name) and name in open_names]
    if missing := [pool for pool in pools if name_of(pool) not in lifted]:
        done = f"Lifted: {', '.join(lifted)}. " if lifted else ""
        raise PauseError(
            f"{done}NodePool {', '.join(missing)} has no pause of its own: `tenon pause --list` shows all."
        )
    return lifted


async def pauses(kube: Kube) -> list[DisruptionFreeze]:
    """Return the pauses of the cluster, also those that have ended."""
    try:
        bodies = await kube.list(DISRUPTIONFREEZES, label_selector=PAUSES)
    except NotFoundError:
        return []
    return [freeze for body in bodies if (freeze := parse(DisruptionFreeze, body)[0]) is not None]


def has_ended(freeze: DisruptionFreeze, now: datetime) -> bool:
    """Return whether the time of a pause is over. Its object stays until somebody pauses again or resumes."""
    return freeze.spec.end_time is not None and freeze.spec.end_time <= now


def _without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "spec": {key: value for key, value in body["spec"].items() if value is not None}}
