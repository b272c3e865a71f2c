"""Keeps the inputs of plans and disruption decisions for `tenon replay`, in a thread, after the decision is made.

A failure never harms a decision.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from activities import loggers
from activities.record.documents import DocumentError, DocumentStore
from tenon.provisioning.plan_decoder import PlanInputDecoder
from tenon.provisioning.plan_document import InputsTooLargeError, PlanInputs
from tenon.provisioning.plan_encoder import PlanInputEncoder
from tenon.record.kept_inputs import KeptInputs
from tenon.scheduling.model import Problem

if TYPE_CHECKING:
    from tenon.replay.decision_inputs import DecisionInputDecoder, DecisionInputEncoder, DecisionInputs

log = loggers.PROVISIONER

CATALOGUE_SECONDS = 24 * 3600.0
"""After so many seconds a catalogue is written again, so that a store which deletes old documents keeps it."""
MAX_WAITING = 2
"""How many decisions may wait for a slow store, because each holds its cluster in memory."""
_Inputs = TypeVar("_Inputs")

CLOSE_SECONDS = 5.0
"""How long a process that stops waits for its store."""


class InputKeeper(Protocol):
    """Keeps the inputs of plans. Tests keep them in memory."""

    async def keep(self, problem: Problem) -> KeptInputs:
        """Keep a problem. It never raises, except for a cancellation."""
        ...


class DecisionKeeper(Protocol):
    """Keeps the inputs of disruption decisions."""

    async def keep_decision(self, inputs: DecisionInputs) -> KeptInputs:
        """Keep what a decision was made from. It never raises, except for a cancellation."""
        ...


def decision_name(digest: str) -> str:
    """Return the name of a disruption decision's document."""
    return f"decisions/{digest[:2]}/{digest}.json.gz"


def plan_name(digest: str) -> str:
    """Return the name of a plan's document."""
    return f"plans/{digest[:2]}/{digest}.json.gz"


def catalogue_name(digest: str) -> str:
    """Return the name of a catalogue's document."""
    return f"catalogues/{digest}.json.gz"


class PlanInputStore:
    """Keeps and reads the inputs of plans and disruption decisions."""

    def __init__(self, store: DocumentStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._encoder = PlanInputEncoder()
        self._decoder = PlanInputDecoder(lambda digest: store.get(catalogue_name(digest)))
        self._written: dict[str, float] = {}
        """When each catalogue was written last."""
        # A thread of its own: a store that hangs must not hold the threads that solve plans.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plan-inputs")
        self._unfinished: set[asyncio.Future[KeptInputs]] = set()

    async def keep(self, problem: Problem) -> KeptInputs:
        """Keep a problem."""
        return await self._keep_in_thread(self._encoder.encode, plan_name, problem)

    async def keep_decision(self, inputs: DecisionInputs) -> KeptInputs:
        """Keep what a disruption decision was made from."""
        return await self._keep_in_thread(self._decision_encoder.encode, decision_name, inputs)

    @cached_property
    def _decision_encoder(self) -> DecisionInputEncoder:
        """One of its own, because each remembers only the lists of instance types that it saw last."""
        from tenon.replay.decision_inputs import DecisionInputEncoder  # processes that decide nothing have no engine

        return DecisionInputEncoder()

    @cached_property
    def _decision_decoder(self) -> DecisionInputDecoder:
        from tenon.replay.decision_inputs import DecisionInputDecoder

        return DecisionInputDecoder(lambda digest: self._store.get(catalogue_name(digest)))

    async def _keep_in_thread(
        self, encode: Callable[[_Inputs], PlanInputs], name: Callable[[str], str], inputs: _Inputs
    ) -> KeptInputs:
        if len(self._unfinished) >= MAX_WAITING:
            return KeptInputs(lacking="the store of earlier inputs is too slow")
        future = asyncio.get_running_loop().run_in_executor(self._thread, partial(self._keep, encode, name, inputs))
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return await future

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait for what is being kept, at most so long. A plan that waits in `keep` is recorded before this returns."""
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=seconds)

    def _keep(self, encode: Callable[[_Inputs], PlanInputs], name: Callable[[str], str], inputs: _Inputs) -> KeptInputs:
        try:
            documents = encode(inputs)
            for digest, document in documents.catalogues.items():
                self._put_catalogue(digest, document)
            self._store.put(name(documents.digest), documents.plan)
            return KeptInputs(documents.digest)
        except InputsTooLargeError as error:
            return KeptInputs(lacking=str(error))
        except DocumentError as error:
            log.warning("The worker failed to keep the inputs of a decision", extra={"error": str(error)})
            return KeptInputs(lacking=f"they could not be kept: {error}")
        except Exception as error:  # the decision is carried out, and its entry must be written
            log.exception("The worker failed to keep the inputs of a decision")
            return KeptInputs(lacking=f"they could not be kept: {type(error).__name__}: {error}")

    def _put_catalogue(self, digest: str, document: bytes) -> None:
        now = self._clock()
        self._written = {name: at for name, at in self._written.items() if now - at < CATALOGUE_SECONDS}
        if digest not in self._written:
            self._store.put(catalogue_name(digest), document)
            self._written[digest] = now

    def read(self, digest: str) -> Problem:
        """Return the problem with this digest.

        Raises:
            DocumentError: a document does not exist, or cannot be read.
            UnreadableInputsError: a document is damaged, or of a newer version.
        """
        plan = self._store.get(plan_name(digest))
        return self._decoder.decode(digest, plan)

    def read_decision(self, digest: str) -> DecisionInputs:
        """Return the inputs of the disruption decision with this digest.

        Raises:
            DocumentError: a document does not exist, or cannot be read.
            UnreadableInputsError: a document is damaged, or of a newer version.
        """
        document = self._store.get(decision_name(digest))
        return self._decision_decoder.decode(digest, document)
