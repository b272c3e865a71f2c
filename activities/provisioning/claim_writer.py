"""Writes the NodeClaims of one batch independently: if the API server refuses one, the others are still written.

Two planners can work on the same batch for a moment while another replica takes over. Therefore the planner writes
claims one by one until one is accepted, and then lists the claims of the batch. Of two planners, at least the one that
lists last sees the other's claim. It deletes its own claim and stops before it writes more. Its retry then finds the
batch planned. This works regardless of which claim is accepted first and what its name is.

If the answer to a request is lost, the claim may have been written. It has the batch label too, so it counts as a claim
of another planner, and the retry finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.resources import NODECLAIMS
from activities.tracing import spans
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import NodePool
from tenon.apis.shortage_price import price_factor, shortage_annotation
from tenon.kube import object_json
from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.messages.explanation import Explanation
from tenon.provisioning import launch_groups
from tenon.provisioning.claims import claim_body, claim_name
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.unavailable_offerings import unavailable_annotation
from tenon.scheduling.model import Plan, PlannedClaim

log = loggers.PROVISIONER

WRITERS = 20
"""The maximum number of NodeClaims that are written at the same time."""
PAUSES = (0.2, 1.0)
"""Seconds between the attempts of a request with a transient failure."""
REQUEST_SECONDS = 35.0
"""The timeout of one request in seconds. An admission webhook may take 30 seconds."""
TIMEOUT = 40.0
"""Seconds after which a request with a transient failure is not retried, so that a plan ends within its time."""
NAMES = 5
"""How many names are tried for one NodeClaim if other NodeClaims have them already."""
MAX_FAILURES = 3
"""How many NodeClaims may have transient failures before the first is written. After that, the plan fails."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClaimNotes:
    """What a NodeClaim tells its launch and its readers about the plan, in annotations."""

    explanation: Explanation
    """Why it is bought."""
    unavailable: Collection[OfferingKey]
    """The offerings that EC2 refused recently and that it must not ask for; it names those of its types."""
    usual_price: float | None
    """The price of the cheapest suitable offering that EC2 refused; None if EC2 refused no suitable one."""


@dataclass(slots=True)
class ClaimWrite:
    """The write of one NodeClaim of a plan.

    It has the engine's claim, which the events of its pods need, next to the manifest, which the API server gets.
    """

    planned: PlannedClaim
    ordinal: int
    body: JsonObject
    error: ApiError | None = None
    """Why it could not be written; None if it was, or was not tried."""

    @property
    def name(self) -> str:
        """The name under which it was written, or the last name that was tried."""
        return str(self.body["metadata"]["name"])

    @property
    def refusal(self) -> ApiError | None:
        """The error, if the API server would refuse the claim again, as opposed to a transient failure."""
        return None if self.error is None or self.error.is_transient else self.error

    @property
    def reason(self) -> NoPlace:
        """The explanation of the error for the events of its pods."""
        if self.refusal is not None:
            text = (
                f"its NodeClaim was refused by the API server: {self.refusal.message}; change the policy that refuses "
                "it, or the NodePool. Tenon retries with growing pauses"
            )
        else:
            text = f"its NodeClaim could not be written: {self.error}; Tenon retries at once"
        return NoPlace.in_pool(self.planned.pool, Obstacle(ObstacleKind.LAUNCHES, text))


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of writing the NodeClaims of a plan."""

    names: tuple[str, ...]
    """The names of the written NodeClaims, in the plan's order."""
    claims: tuple[PlannedClaim, ...]
    """The planned claim of each written NodeClaim, in the same order."""
    unwritten: tuple[ClaimWrite, ...] = ()

    @classmethod
    def nothing(cls, plan: Plan, error: ApiError) -> Written:
        """No NodeClaim of the plan was written, because of one error."""
        return cls((), (), tuple(ClaimWrite(planned, n, {}, error) for n, planned in enumerate(plan.claims)))


async def write_claims(
    kube: Kube,
    plan: Plan,
    pools: Mapping[str, NodePool],
    batch: int,
    overlaid: Overlaid,
    notes: Sequence[ClaimNotes],
    *,
    names_none: bool,
) -> Written:
    """Write every NodeClaim of a plan that the API server accepts.

    Args:
        kube: the cluster.
        plan: the plan.
        pools: the NodePools by name.
        batch: the batch number, from which the claims' names are derived.
        overlaid: the instance types with NodeOverlays applied; the claims get annotations about them.
        notes: those of each claim of the plan.
        names_none: whether a claim for which nothing is unavailable says so. Its launch then asks for offerings that
            were refused a while ago and that the plan uses again.

    Raises:
        ApiError: the API server is not available, and no claim was written.
        ApplicationError: another planner has written claims of the same batch.
    """
    writing = _Writing(kube, batch)
    claim_writes = [
        _claim_write(planned, pools[planned.pool], batch, n, overlaid) for n, planned in enumerate(plan.claims)
    ]
    for claim_write, claim_notes in zip(claim_writes, notes, strict=True):
        claim_write.body["metadata"]["annotations"] |= _annotations(
            claim_write.planned, pools[claim_write.planned.pool], claim_notes, names_none=names_none
        )
    launch_groups.annotate([claim_write.body for claim_write in claim_writes], batch)
    waiting = await writing.first(claim_writes)
    gate = asyncio.Semaphore(WRITERS)

    async def write(claim_write: ClaimWrite) -> None:
        async with gate:
            await writing.write(claim_write)

    answers = await asyncio.gather(*(write(claim_write) for claim_write in waiting), return_exceptions=True)
    for answer in answers:  # raise only after all have finished, so that a retry finds everything that was written
        if isinstance(answer, BaseException):
            raise answer
    return writing.written(claim_writes)


def _annotations(planned: PlannedClaim, pool: NodePool, notes: ClaimNotes, *, names_none: bool) -> dict[str, str]:
    """What the claim says about its plan."""
    annotations = {labels.EXPLANATION: notes.explanation.annotation()}
    named_offerings = unavailable_annotation(planned.instance_types, notes.unavailable)
    if named_offerings or names_none:
        annotations |= {labels.UNAVAILABLE_OFFERINGS: "", **named_offerings}
    factor = price_factor(pool.metadata.annotations)
    annotations |= shortage_annotation(planned.price, notes.usual_price, factor)
    if origin := spans.origin(min((pod.created for pod in planned.pods), default=0.0)):
        annotations[labels.CREATED_IN_TRACE] = origin
    return annotations


class _Writing:
    """Writes the NodeClaims of one batch."""

    def __init__(self, kube: Kube, batch: int) -> None:
        self._kube = kube
        self._batch = batch

    async def first(self, claim_writes: Sequence[ClaimWrite]) -> Sequence[ClaimWrite]:
        """Write claims one by one until one is accepted, then check that no other planner works on the batch.

        Returns:
            The claims that are still to be written.
        """
        for tried, claim_write in enumerate(claim_writes, start=1):
            uid = await self.write(claim_write, alone=True)
            if uid is not None:
                await self._stop_unless_alone(claim_write, uid)
                return claim_writes[tried:]
            transient_failures = sum(other.refusal is None for other in claim_writes[:tried])
            if claim_write.error is not None and (
                claim_write.error.status == 0 or transient_failures in (len(claim_writes), MAX_FAILURES)
            ):
                raise claim_write.error
        return ()

    async def write(self, claim_write: ClaimWrite, *, alone: bool = False) -> str | None:
        """Write a claim and return its UID, or None if it could not be written. Keep the error in that case."""
        try:
            created = await self._create(claim_write, alone=alone)
        except ApiError as error:
            claim_write.error = error
            log.warning(
                "The provisioner failed to create a NodeClaim",
                extra={"nodeclaim": claim_write.name, "nodepool": claim_write.planned.pool, "error": str(error)},
            )
            return None
        relaxed = "true" if claim_write.planned.min_values_relaxed else "false"
        metrics.CLAIMS_CREATED.labels("provisioned", claim_write.planned.pool, relaxed).inc()
        return str(created["metadata"].get("uid") or "")

    def written(self, claim_writes: Iterable[ClaimWrite]) -> Written:
        """The outcome for all of these claims."""
        written_claims = [claim_write for claim_write in claim_writes if claim_write.error is None]
        return Written(
            tuple(claim_write.name for claim_write in written_claims),
            tuple(claim_write.planned for claim_write in written_claims),
            tuple(claim_write for claim_write in claim_writes if claim_write.error is not None),
        )

    async def _create(self, claim_write: ClaimWrite, *, alone: bool) -> JsonObject:
        """Create the claim. If a claim of another batch has its name, try another name."""
        taken_error = ApiError(0, "", "")
        for salt in range(NAMES):
            claim_write.body["metadata"]["name"] = claim_name(
                claim_write.planned.pool, self._batch, claim_write.ordinal, salt
            )
            try:
                created = await _with_retries(lambda: self._kube.create(NODECLAIMS, claim_write.body))
            except ConflictError as error:
                taken_error = error
            else:
                _log_created(claim_write)
                return created
            present = await _with_retries(lambda: self._kube.get(NODECLAIMS, claim_write.name)) or {"metadata": {}}
            if object_json.labels(present).get(labels.BATCH) != str(self._batch):
                log.info(
                    "The name of a NodeClaim is taken, and the provisioner retries with another one",
                    extra={"nodeclaim": claim_write.name},
                )
            elif alone or not _for_same_pods(present, claim_write.body):
                raise _another_planner(claim_write.name)
            else:
                log.info("A NodeClaim exists already", extra={"nodeclaim": claim_write.name})
                return present
        raise taken_error

    async def _stop_unless_alone(self, claim_write: ClaimWrite, uid: str) -> None:
        of_batch = f"{labels.BATCH}={self._batch}"
        batch_claims = await _with_retries(lambda: self._kube.list(NODECLAIMS, label_selector=of_batch))
        others = sorted({str(claim["metadata"]["name"]) for claim in batch_claims} - {claim_write.name})
        if others:
            await _with_retries(lambda: self._kube.delete(NODECLAIMS, claim_write.name, uid=uid or None))
            raise _another_planner(others[0])


def _claim_write(planned: PlannedClaim, pool: NodePool, batch: int, ordinal: int, overlaid: Overlaid) -> ClaimWrite:
    body = claim_body(planned, pool, batch=batch, ordinal=ordinal)
    body["metadata"]["annotations"] |= overlaid.overlay_annotations(planned.pool, planned.instance_types)
    return ClaimWrite(planned, ordinal, body)


def _log_created(claim_write: ClaimWrite) -> None:
    log.info(
        "The provisioner created a NodeClaim",
        extra={
            "nodeclaim": claim_write.name,
            "nodepool": claim_write.planned.pool,
            "pod-count": len(claim_write.planned.pods),
            "instance-types": list(claim_write.planned.instance_types[:5]),
            "instance-type-count": len(claim_write.planned.instance_types),
            "price": claim_write.planned.price,
        },
    )


async def _with_retries(request: Callable[[], Awaitable[_T]]) -> _T:
    """Send a request, and retry it a few times after transient failures."""
    loop = asyncio.get_running_loop()
    until = loop.time() + TIMEOUT
    for pause in PAUSES:
        try:
            return await _in_time(request)
        except ApiError as error:
            if not error.is_transient or loop.time() + pause > until:
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
    """Whether an existing claim is for the same pods, so that it can be used in place of a new one."""
    planned_pods = body["metadata"]["annotations"][labels.PLANNED_PODS]
    return bool(object_json.annotations(present).get(labels.PLANNED_PODS) == planned_pods)


def _another_planner(name: str) -> ApplicationError:
    return ApplicationError(f"another planner works on this batch: {name} exists", type="CacheBehind")
