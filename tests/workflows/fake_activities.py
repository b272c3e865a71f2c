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
from tenon.messages.node_steps import (
    BindResult,
    CordonInput,
    CordonResult,
    DetachInput,
    DetachResult,
    DrainInput,
    DrainResult,
    ExpirationInput,
    ExpirationResult,
    InitializeInput,
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
        self.steps_together = False
        """Steps also do what usually follows, as the real ones do if nothing fails: initialize and bind, cordon and
        drain an empty node, terminate and release."""
        self.local_calls: list[str] = []
        self.launches_go = asyncio.Event()
        self.launches_go.set()

    def _called(self, name: ActivityName, value: Any) -> None:
        if activity.info().is_local:
            self.local_calls.append(name.value)
            if self.local_fails:
                raise ApplicationError("the API server does not answer")
        self.calls.append(name.value)
        self.inputs.append(value)

    @activity.defn(name=ActivityName.PREPARE_LAUNCH)
    async def prepare(self, prepare_launch_input: PrepareLaunchInput) -> PrepareLaunchResult:
        self._called(ActivityName.PREPARE_LAUNCH, prepare_launch_input)
        if self.view.instance or self.view.deleting or not self.view.exists:
            return PrepareLaunchResult(view=self.view)
        request = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})
        return PrepareLaunchResult(view=self.view, request=request)

    @activity.defn(name=ActivityName.LAUNCH)
    async def launch(self, launch_input: LaunchInput) -> LaunchResult:
        self._called(ActivityName.LAUNCH, launch_input)
        await self.launches_go.wait()
        answer = self.launches.pop(0) if self.launches else LaunchResult(instance=INSTANCE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @activity.defn(name=ActivityName.REGISTER)
    async def register(self, node_input: NodeInput) -> RegisterResult:
        self._called(ActivityName.REGISTER, node_input)
        return (
            RegisterResult(node_name=node_input.node_name)
            if node_input.node_name
            else RegisterResult(reason="NodeNotFound")
        )

    @activity.defn(name=ActivityName.INITIALIZE)
    async def initialize(self, initialize_input: InitializeInput) -> InitializeResult:
        self._called(ActivityName.INITIALIZE, initialize_input)
        if self.never_ready:
            return InitializeResult(reason="NodeNotReady", message=self.never_ready)
        binds = self.steps_together and initialize_input.binds
        return InitializeResult(initialized=True, binding=BindResult(bound=2, planned=2) if binds else None)

    @activity.defn(name=ActivityName.BIND)
    async def bind(self, node_input: NodeInput) -> BindResult:
        self._called(ActivityName.BIND, node_input)
        return BindResult(bound=2, planned=2)

    @activity.defn(name=ActivityName.KEEP)
    async def keep(self, keep_input: KeepInput) -> KeepRecorded:
        self._called(ActivityName.KEEP, keep_input)
        return KeepRecorded()

    @activity.defn(name=ActivityName.WITHDRAW)
    async def withdraw(self, node_input: NodeInput) -> Withdrawn:
        self._called(ActivityName.WITHDRAW, node_input)
        return Withdrawn(removed=True)

    @activity.defn(name=ActivityName.CHECK_EXPIRATION)
    async def check_expiration(self, expiration_input: ExpirationInput) -> ExpirationResult:
        self._called(ActivityName.CHECK_EXPIRATION, expiration_input)
        return ExpirationResult(waits=self.expired_waits)

    @activity.defn(name=ActivityName.CORDON)
    async def cordon(self, cordon_input: CordonInput) -> CordonResult:
        self._called(ActivityName.CORDON, cordon_input)
        if self.not_managed:
            raise ApplicationError("it is left alone", type=ErrorType.NOT_MANAGED, non_retryable=True)
        if cordon_input.only_if_empty and self.pods_on_cordon:
            return CordonResult(cordoned=False, pods=self.pods_on_cordon)
        is_empty = self.steps_together and not self.pods_on_cordon and bool(cordon_input.node_name)
        return CordonResult(
            node_name=cordon_input.node_name,
            pods=self.pods_on_cordon,
            node_exists=bool(cordon_input.node_name),
            drained=DrainResult(drained=True) if is_empty else None,
        )

    @activity.defn(name=ActivityName.DRAIN)
    async def drain(self, drain_input: DrainInput) -> DrainResult:
        self._called(ActivityName.DRAIN, drain_input)
        while self.hold_drain and not drain_input.force:
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return self.drains.pop(0) if self.drains and not drain_input.force else DrainResult(drained=True, evicted=1)

    @activity.defn(name=ActivityName.DETACH_VOLUMES)
    async def detach(self, detach_input: DetachInput) -> DetachResult:
        self._called(ActivityName.DETACH_VOLUMES, detach_input)
        return DetachResult(detached=True)

    @activity.defn(name=ActivityName.TERMINATE)
    async def terminate(self, terminate_input: TerminateInput) -> TerminateResult:
        self._called(ActivityName.TERMINATE, terminate_input)
        released = ReleaseResult() if self.steps_together else None
        return TerminateResult(terminated=True, state="terminated", released=released)

    @activity.defn(name=ActivityName.RELEASE)
    async def release(self, release_input: ReleaseInput) -> ReleaseResult:
        self._called(ActivityName.RELEASE, release_input)
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
