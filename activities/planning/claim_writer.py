"""Writes the NodeClaims of one batch, each on its own: one that the API server refuses does not stop the others.

Two planners can be at one batch at the same time, for a moment, when another replica takes over. The first claim that
is accepted is written alone, and then the claims of the batch are listed: of two planners at least the one that lists
last sees the other's. It takes its own claim back and stops before it has written more. Its retry then finds the batch
planned. That holds whichever claim is the first to be accepted, and whatever its name is.

An answer that never came may hide a claim that was written. Such a claim bears the batch as well, so it counts as one
of another planner, and the retry finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio.exceptions import ApplicationError

from activities import metrics
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError, Conflict
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.provisioning import launch_groups
from tenon.provisioning.claims import claim_body, claim_name
from tenon.provisioning.overlays import Overlaid
from tenon.scheduling.model import Plan, PlannedClaim

log = logging.getLogger("controller.provisioner")

WRITERS = 20
"""NodeClaims written at the same time."""
PAUSES = (0.2, 1.0)
"""Seconds between the tries of a request that failed by chance."""
REQUEST_SECONDS = 35.0
"""How long one request may take; an admission webhook may take 30 seconds."""
PATIENCE = 40.0
"""Seconds after which a request that failed by chance is not repeated, so that a plan ends within its time."""
NAMES = 5
"""Names that are tried for one NodeClaim while others have them."""
MOST_FAILURES = 3
"""So many NodeClaims may fail by chance before the first is written; then the API server counts as away."""

_BY_CHANCE = frozenset({0, 401, 408, 429})
"""Beside 5xx, the statuses of requests that may succeed if they are repeated as they are."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A NodeClaim that could not be written."""

    planned: PlannedClaim
    error: ApiError

    @property
    def refused(self) -> bool:
        """Whether the API server will refuse it again; otherwise it failed by chance."""
        return not _by_chance(self.error)

    @property
    def sentence(self) -> str:
        """What people who wait for its pods should know."""
        where = f"NodePool {self.planned.pool}: its NodeClaim"
        if self.refused:
            return (
                f"{where} was refused by the API server: {self.error.message}; change what refuses it, or the NodePool."
                " It is tried again with growing pauses"
            )
        return f"{where} could not be written: {self.error}; it is tried again at once"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the NodeClaims of a plan."""

    names: tuple[str, ...]
    """Of the NodeClaims that are written, in the plan's order."""
    claims: tuple[PlannedClaim, ...]
    """What was planned for each of them."""
    unwritten: tuple[Unwritten, ...] = ()


@dataclass(slots=True)
class _Wanted:
    """One NodeClaim to write."""

    planned: PlannedClaim
    ordinal: int
    body: Object

    @property
    def name(self) -> str:
        """The name under which it is, or was last tried to be, written."""
        return str(self.body["metadata"]["name"])


async def write_claims(
    kube: Kube,
    plan: Plan,
    pools: Mapping[str, NodePool],
    batch: int,
    seen: Overlaid | None = None,
    explanations: Sequence[str] = (),
) -> Written:
    """Write every NodeClaim of a plan that the API server takes.

    Args:
        kube: the cluster.
        plan: what is to be bought.
        pools: the NodePools by name.
        batch: the number that the claims' names derive from.
        seen: what NodeOverlays changed of the types, of which the claims bear a trace.
        explanations: for each claim of the plan, why it is bought.

    Raises:
        ApiError: the API server is away, and nothing is written.
        ApplicationError: another plan of the same batch is there.
    """
    writing = _Writing(kube, batch)
    wanted = [_wanted(planned, pools[planned.pool], batch, n, seen) for n, planned in enumerate(plan.claims)]
    for one, why in zip(wanted, explanations, strict=False):
        one.body["metadata"]["annotations"][labels.EXPLANATION] = why
    launch_groups.annotate([one.body for one in wanted], batch)
    waiting = await writing.first(wanted)
    gate = asyncio.Semaphore(WRITERS)

    async def write(one: _Wanted) -> None:
        async with gate:
            await writing.write(one)

    answers = await asyncio.gather(*(write(one) for one in waiting), return_exceptions=True)
    for answer in answers:  # raised only when all have come to an end: a retry must find what was written
        if isinstance(answer, BaseException):
            raise answer
    return writing.written(wanted)


class _Writing:
    """The NodeClaims of one batch while they are written."""

    def __init__(self, kube: Kube, batch: int) -> None:
        self._kube = kube
        self._batch = batch
        self._failed: dict[int, ApiError] = {}

    async def first(self, wanted: Sequence[_Wanted]) -> Sequence[_Wanted]:
        """Write claims one after another until one is accepted, and make sure that no other planner is at the batch;
        the claims that still wait.
        """
        for tried, one in enumerate(wanted, start=1):
            uid = await self.write(one, alone=True)
            if uid is not None:
                await self._stop_unless_alone(one, uid)
                return wanted[tried:]
            by_chance = [error for error in self._failed.values() if _by_chance(error)]
            error = self._failed[one.ordinal]
            if error.status == 0 or len(by_chance) in (len(wanted), MOST_FAILURES):
                raise error
        return ()

    async def write(self, one: _Wanted, *, alone: bool = False) -> str | None:
        """Write a claim; the UID that it got. None when it could not be written: why is remembered."""
        try:
            made = await self._create(one, alone=alone)
        except ApiError as error:
            self._failed[one.ordinal] = error
            log.warning(
                "could not create nodeclaim",
                extra={"nodeclaim": one.name, "nodepool": one.planned.pool, "reason": str(error)},
            )
            return None
        relaxed = "true" if one.planned.min_values_relaxed else "false"
        metrics.CLAIMS_CREATED.labels("provisioned", one.planned.pool, relaxed).inc()
        return str(made["metadata"].get("uid") or "")

    def written(self, wanted: Iterable[_Wanted]) -> Written:
        """What became of all."""
        there = [one for one in wanted if one.ordinal not in self._failed]
        return Written(
            tuple(one.name for one in there),
            tuple(one.planned for one in there),
            tuple(Unwritten(one.planned, self._failed[one.ordinal]) for one in wanted if one.ordinal in self._failed),
        )

    async def _create(self, one: _Wanted, *, alone: bool) -> Object:
        """Create the claim, under another name where the object of that name is none of this batch."""
        taken = ApiError(0, "", "")
        for salt in range(NAMES):
            one.body["metadata"]["name"] = claim_name(one.planned.pool, self._batch, one.ordinal, salt)
            try:
                return await _patiently(lambda: self._kube.create(NODECLAIMS, one.body))
            except Conflict as error:
                taken = error
            present = await _patiently(lambda: self._kube.get(NODECLAIMS, one.name)) or {"metadata": {}}
            if (present["metadata"].get("labels") or {}).get(labels.BATCH) != str(self._batch):
                log.info("nodeclaim name is taken, trying another one", extra={"nodeclaim": one.name})
            elif alone or not _for_same_pods(present, one.body):
                raise _another_planner(one.name)
            else:
                log.info("nodeclaim exists already", extra={"nodeclaim": one.name})
                return present
        raise taken

    async def _stop_unless_alone(self, one: _Wanted, uid: str) -> None:
        of_batch = f"{labels.BATCH}={self._batch}"
        there = await _patiently(lambda: self._kube.list(NODECLAIMS, label_selector=of_batch))
        others = sorted({str(claim["metadata"]["name"]) for claim in there} - {one.name})
        if others:
            await _patiently(lambda: self._kube.delete(NODECLAIMS, one.name, uid=uid or None))
            raise _another_planner(others[0])


def _wanted(planned: PlannedClaim, pool: NodePool, batch: int, ordinal: int, seen: Overlaid | None) -> _Wanted:
    body = claim_body(planned, pool, batch=batch, ordinal=ordinal)
    if seen is not None:
        body["metadata"]["annotations"] |= seen.traces(planned.pool, planned.instance_types)
    log.info(
        "computed packing",
        extra={
            "nodeclaim": body["metadata"]["name"],
            "nodepool": planned.pool,
            "pods": len(planned.pods),
            "instance-types": list(planned.instance_types[:5]),
            "instance-type-options": len(planned.instance_types),
            "price": planned.price,
        },
    )
    return _Wanted(planned, ordinal, body)


def _by_chance(error: ApiError) -> bool:
    return error.status in _BY_CHANCE or error.status >= 500


async def _patiently(request: Callable[[], Awaitable[_T]]) -> _T:
    """The answer to a request, which is repeated a few times while it fails by chance."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    for pause in PAUSES:
        try:
            return await _in_time(request)
        except ApiError as error:
            if not _by_chance(error) or loop.time() + pause > until:
                raise
        await asyncio.sleep(pause)
    return await _in_time(request)


async def _in_time(request: Callable[[], Awaitable[_T]]) -> _T:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await request()
    except TimeoutError:
        raise ApiError(0, "Timeout", f"the API server gave no answer within {REQUEST_SECONDS:.0f} s") from None


def _for_same_pods(present: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the claim that is there is for the same pods: then it is as good as ours."""
    wanted = body["metadata"]["annotations"][labels.PLANNED_PODS]
    return bool((present["metadata"].get("annotations") or {}).get(labels.PLANNED_PODS) == wanted)


def _another_planner(name: str) -> ApplicationError:
    return ApplicationError(f"another planner is at this batch: {name} is there", type="CacheBehind")
