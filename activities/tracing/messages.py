"""What the messages of activities say for the attributes of spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activities.tracing.catalogue import Attribute
from activities.tracing.spans import Value
from tenon.messages.base import ClaimRef, Message
from tenon.messages.disruption import DisruptionCommand, DisruptResult, StepResult
from tenon.messages.launch import Instance, LaunchResult, PrepareLaunchResult
from tenon.messages.node_steps import (
    BindResult,
    CordonInput,
    CordonResult,
    DrainInput,
    DrainResult,
    InitializeResult,
    RegisterResult,
    TerminateInput,
)
from tenon.messages.nodeclass import NodeClassInput
from tenon.messages.provisioning import PlanInput, PlanResult

_Attributes = dict[Attribute, Value]


def attributes_of_input(message: object) -> _Attributes:
    """What an activity's input says about what it works on."""
    attributes: _Attributes = {}
    claim = getattr(message, "claim", None)
    if isinstance(claim, ClaimRef):
        attributes[Attribute.NODECLAIM] = claim.name
    command = getattr(message, "command", None)
    if isinstance(command, DisruptionCommand):
        attributes |= {
            Attribute.COMMAND: command.id,
            Attribute.REASON: command.reason,
            Attribute.NODECLAIMS: len(command.candidates),
            Attribute.PODS: command.pods,
            Attribute.SAVING: command.predicted,
        }
    if isinstance(node := getattr(message, "node_name", None), str):
        attributes[Attribute.NODE] = node
    if isinstance(provider := getattr(message, "provider_id", None), str):
        attributes[Attribute.INSTANCE] = provider.rpartition("/")[2]
    match message:
        case PlanInput():
            attributes[Attribute.BATCH] = message.batch
        case CordonInput():
            attributes[Attribute.REASON] = message.removal.reason
        case DrainInput():
            attributes |= {Attribute.NODEPOOL: message.pool, Attribute.REASON: message.reason}
        case TerminateInput():
            attributes |= {Attribute.INSTANCE: message.instance_id, Attribute.ZONE: message.zone}
        case NodeClassInput():
            attributes[Attribute.NODECLASS] = message.name
        case _:
            pass
    return _without_empty(attributes)


def _without_empty(attributes: _Attributes) -> _Attributes:
    return {name: value for name, value in attributes.items() if value != ""}


def _of_instance(instance: Instance) -> _Attributes:
    return {
        Attribute.INSTANCE: instance.id,
        Attribute.INSTANCE_TYPE: instance.instance_type,
        Attribute.IMAGE: instance.image_id,
        Attribute.ZONE: instance.zone,
        Attribute.CAPACITY_TYPE: instance.capacity_type,
        Attribute.PRICE: instance.price,
    }


def _of_preparation(result: PrepareLaunchResult) -> _Attributes:
    instance = _of_instance(result.view.instance) if result.view.instance is not None else {}
    return instance | {Attribute.NODEPOOL: result.view.pool, Attribute.OUTCOME: result.reason}


def _of_launch(result: LaunchResult) -> _Attributes:
    if result.instance is not None:
        return _of_instance(result.instance)
    return {Attribute.OUTCOME: result.reason or (result.waits.reason if result.waits is not None else "")}


def _of_plan(result: PlanResult) -> _Attributes:
    return {
        Attribute.BATCH: result.batch,
        Attribute.PODS: result.pods,
        Attribute.NODECLAIMS: len(result.claims),
        Attribute.PRICE: result.price,
        Attribute.UNSCHEDULABLE: result.unschedulable,
    }


_RESULTS: dict[type[Message], Callable[[Any], _Attributes]] = {
    PrepareLaunchResult: _of_preparation,
    LaunchResult: _of_launch,
    PlanResult: _of_plan,
    RegisterResult: lambda result: {Attribute.NODE: result.node_name, Attribute.OUTCOME: result.reason},
    InitializeResult: lambda result: {Attribute.OUTCOME: result.reason},
    BindResult: lambda result: {Attribute.PODS: result.bound},
    CordonResult: lambda result: {Attribute.NODE: result.node_name, Attribute.PODS: result.pods},
    DrainResult: lambda result: {
        Attribute.PODS: result.evicted,
        Attribute.OUTCOME: "" if result.drained else f"{result.remaining} pods remain",
    },
    StepResult: lambda result: {Attribute.OUTCOME: result.failure or result.waits},
    DisruptResult: lambda result: {
        Attribute.NODECLAIMS: len(result.accepted),
        Attribute.OUTCOME: f"{len(result.refused)} refused" if result.refused else "",
    },
}


def attributes_of_result(message: object) -> _Attributes:
    """What an activity's result says about what it did."""
    read = _RESULTS.get(type(message))  # type: ignore[arg-type]
    return _without_empty(read(message)) if read is not None else {}
