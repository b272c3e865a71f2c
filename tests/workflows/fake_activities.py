"""Activities that play a cluster and an EC2 where everything goes well, unless a test says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from tenon.messages.base import ActivityName, ErrorType
from tenon.messages.launch import (
    ClaimView,
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    PrepareLaunchInput,
    PrepareLaunchResult,
)
from tenon.messages.node import (
    BindResult,
    CordonInput,
    CordonResult,
    DetachInput,
    DetachResult,
    DrainInput,
    DrainResult,
    ExpirationInput,
    ExpirationResult,
    InitializeResult,
    KeepInput,
    NodeInput,
    RegisterResult,
    ReleaseInput,
    ReleaseResult,
    TerminateInput,
    TerminateResult,
)
from tenon.node.steps import KeepRecorded, Withdrawn

INSTANCE = Instance(
    id="i-0123456789abcdef0",
    provider_id="aws:///us-west-2a/i-0123456789abcdef0",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="on-demand",
    image_id="ami-1",
    price=0.096,
)


class FakeWorld:
    """Answers every activity of a node's life; ``calls`` says in which order they came."""

    def __init__(self, **view: Any) -> None:
        self.view = ClaimView(
            exists=True, created_at=datetime.now(UTC), pool="default", node_class="default", planned_pods=2
        ).model_copy(update=view)
        self.calls: list[str] = []
        self.inputs: list[Any] = []
        self.launches: list[LaunchResult | Exception] = []
        self.pods_on_cordon = 0
        self.expired_waits = False
        self.drains: list[DrainResult] = []
        self.hold_drain = False
        self.never_ready = ""
        self.not_managed = False
        self.local_fails = False
        self.local_calls: list[str] = []
        self.launches_go = asyncio.Event()
        self.launches_go.set()

    def _called(self, name: ActivityName, given: Any) -> None:
        if activity.info().is_local:
            self.local_calls.append(name.value)
            if self.local_fails:
                raise ApplicationError("the API server does not answer")
        self.calls.append(name.value)
        self.inputs.append(given)

    @activity.defn(name=ActivityName.PREPARE_LAUNCH)
    async def prepare(self, given: PrepareLaunchInput) -> PrepareLaunchResult:
        self._called(ActivityName.PREPARE_LAUNCH, given)
        if self.view.instance or self.view.deleting or not self.view.exists:
            return PrepareLaunchResult(view=self.view)
        request = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})
        return PrepareLaunchResult(view=self.view, request=request)

    @activity.defn(name=ActivityName.LAUNCH)
    async def launch(self, given: LaunchInput) -> LaunchResult:
        self._called(ActivityName.LAUNCH, given)
        await self.launches_go.wait()
        answer = self.launches.pop(0) if self.launches else LaunchResult(instance=INSTANCE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @activity.defn(name=ActivityName.REGISTER)
    async def register(self, given: NodeInput) -> RegisterResult:
        self._called(ActivityName.REGISTER, given)
        return RegisterResult(node_name=given.node_name) if given.node_name else RegisterResult(reason="NodeNotFound")

    @activity.defn(name=ActivityName.INITIALIZE)
    async def initialize(self, given: NodeInput) -> InitializeResult:
        self._called(ActivityName.INITIALIZE, given)
        if self.never_ready:
            return InitializeResult(reason="NodeNotReady", message=self.never_ready)
        return InitializeResult(initialized=True)

    @activity.defn(name=ActivityName.BIND)
    async def bind(self, given: NodeInput) -> BindResult:
        self._called(ActivityName.BIND, given)
        return BindResult(bound=2, planned=2)

    @activity.defn(name=ActivityName.KEEP)
    async def keep(self, given: KeepInput) -> KeepRecorded:
        self._called(ActivityName.KEEP, given)
        return KeepRecorded()

    @activity.defn(name=ActivityName.WITHDRAW)
    async def withdraw(self, given: NodeInput) -> Withdrawn:
        self._called(ActivityName.WITHDRAW, given)
        return Withdrawn(removed=True)

    @activity.defn(name=ActivityName.CHECK_EXPIRATION)
    async def check_expiration(self, given: ExpirationInput) -> ExpirationResult:
        self._called(ActivityName.CHECK_EXPIRATION, given)
        return ExpirationResult(waits=self.expired_waits)

    @activity.defn(name=ActivityName.CORDON)
    async def cordon(self, given: CordonInput) -> CordonResult:
        self._called(ActivityName.CORDON, given)
        if self.not_managed:
            raise ApplicationError("it is left alone", type=ErrorType.NOT_MANAGED, non_retryable=True)
        if given.only_if_empty and self.pods_on_cordon:
            return CordonResult(cordoned=False, pods=self.pods_on_cordon)
        return CordonResult(node_name=given.node_name, node_exists=bool(given.node_name))

    @activity.defn(name=ActivityName.DRAIN)
    async def drain(self, given: DrainInput) -> DrainResult:
        self._called(ActivityName.DRAIN, given)
        while self.hold_drain and not given.force:
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return self.drains.pop(0) if self.drains and not given.force else DrainResult(drained=True, evicted=1)

    @activity.defn(name=ActivityName.DETACH_VOLUMES)
    async def detach(self, given: DetachInput) -> DetachResult:
        self._called(ActivityName.DETACH_VOLUMES, given)
        return DetachResult(detached=True)

    @activity.defn(name=ActivityName.TERMINATE)
    async def terminate(self, given: TerminateInput) -> TerminateResult:
        self._called(ActivityName.TERMINATE, given)
        return TerminateResult(terminated=True, state="terminated")

    @activity.defn(name=ActivityName.RELEASE)
    async def release(self, given: ReleaseInput) -> ReleaseResult:
        self._called(ActivityName.RELEASE, given)
        return ReleaseResult()

    def all(self) -> Sequence[Callable[..., Any]]:
        """Every activity, for a worker."""
        return [
            self.prepare,
            self.launch,
            self.register,
            self.initialize,
            self.bind,
            self.keep,
            self.withdraw,
            self.check_expiration,
            self.cordon,
            self.drain,
            self.detach,
            self.terminate,
            self.release,
        ]
