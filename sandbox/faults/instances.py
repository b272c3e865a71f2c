"""Faults of instances: while they boot, or while their nodes run."""

from __future__ import annotations

import random
from typing import Annotated, Any

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults.registry import Done, fault
from tenon.apis import labels

Type = Annotated[str, "Only instances of this type; empty for all."]
Chance = Annotated[float, "Share of the instances, 0 to 1."]
Seed = Annotated[int, "Seed of the random choice: the same seed makes the same choice."]
Instance = Annotated[str, "Instance id; empty draws one that runs."]

NO_ACCESS = (
    'kubelet[1512]: E1126 12:00:00.000000 1512 kubelet_node_status.go:107] "Unable to register node with API server" '
    'err="Unauthorized"'
)
"""A kubelet whose role the API server does not accept."""


def _boot_well(sandbox: Sandbox) -> None:
    sandbox.ec2().clear_boot()


def _all_report(sandbox: Sandbox) -> None:
    ec2 = sandbox.ec2()
    for instance in ec2.instances():
        if instance["state"] == "running":
            ec2.silence_kubelet(instance["id"], silent=False)


@fault("instances-never-join", heal=_boot_well)
def never_join(
    sandbox: Sandbox,
    console: Annotated[str, "What they write to their console."] = NO_ACCESS,
    type: Type = "",
    chance: Chance = 1.0,
    seed: Seed = 0,
) -> Done:
    """Instances run and never become nodes, as without an access entry for the node role."""
    sandbox.ec2().boot(never=True, console=console, type=type or None, chance=chance, seed=seed)
    return []


@fault("instances-join-late", heal=_boot_well)
def join_late(
    sandbox: Sandbox,
    delay: Annotated[float, "Seconds from running to joining."] = 120.0,
    type: Type = "",
    chance: Chance = 1.0,
    seed: Seed = 0,
) -> Done:
    """Instances take long to become nodes."""
    sandbox.ec2().boot(delay=delay, type=type or None, chance=chance, seed=seed)
    return []


@fault("instances-die-booting", heal=_boot_well)
def die_booting(sandbox: Sandbox, type: Type = "", chance: Chance = 1.0, seed: Seed = 0) -> Done:
    """Instances end themselves at the moment when they would join, with a StateReason."""
    sandbox.ec2().boot(dies=True, type=type or None, chance=chance, seed=seed)
    return []


@fault("instances-never-ready", heal=_boot_well)
def never_ready(sandbox: Sandbox, type: Type = "", chance: Chance = 1.0, seed: Seed = 0) -> Done:
    """Instances become nodes that never turn Ready."""
    sandbox.ec2().boot(not_ready=True, type=type or None, chance=chance, seed=seed)
    return []


@fault("instance-killed", heal=None)
def killed(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """Somebody terminates a running instance; its Node stays behind, not ready."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().kill_instance(choose["instance"])
    return [choose]


@fault("instance-stopped", heal=None)
def stopped(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """Somebody stops a running instance; its Node stays behind, not ready."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().stop_instance(choose["instance"])
    return [choose]


@fault("instance-vanished", heal=None)
def vanished(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """EC2 does not know a running instance any more; its Node stays behind, not ready."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().vanish_instance(choose["instance"])
    return [choose]


@fault("instance-impaired", heal=None)
def impaired(
    sandbox: Sandbox,
    instance: Instance = "",
    seed: Seed = 0,
    check: Annotated[str, "The failing status check: instance or system."] = "instance",
    seconds: Annotated[float, "How many seconds ago it began to fail."] = 0.0,
) -> Done:
    """EC2's status check of a running instance fails from now on; its Node stays as it is."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().impair_instance(choose["instance"], check, seconds=seconds)
    return [choose]


@fault("kubelet-silent", heal=_all_report)
def kubelet_silent(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """The kubelet of a running instance reports nothing; its Node is not ready."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().silence_kubelet(choose["instance"])
    return [choose]


@fault("spot-interrupted", heal=None)
def spot_interrupted(
    sandbox: Sandbox,
    instance: Instance = "",
    notice: Annotated[float, "Seconds from the notice to the end of the instance."] = 120.0,
    seed: Seed = 0,
) -> Done:
    """EC2 takes a spot instance back: the notice goes to the interruption queue."""
    choose = _choose(sandbox, instance, seed, capacity_type=labels.SPOT)
    sandbox.ec2().interrupt_instance(choose["instance"], notice_seconds=notice)
    return [choose]


@fault("rebalance-recommended", heal=None)
def rebalance_recommended(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """EC2 recommends to replace a spot instance, with a message in the interruption queue."""
    choose = _choose(sandbox, instance, seed, capacity_type=labels.SPOT)
    sandbox.ec2().recommend_rebalance(choose["instance"])
    return [choose]


@fault("retirement-scheduled", heal=None)
def retirement_scheduled(sandbox: Sandbox, instance: Instance = "", seed: Seed = 0) -> Done:
    """AWS Health announces the retirement of a running instance, with a message in the interruption queue."""
    choose = _choose(sandbox, instance, seed)
    sandbox.ec2().schedule_retirement(choose["instance"])
    return [choose]


def _choose(sandbox: Sandbox, instance: str, seed: int, capacity_type: str = "") -> dict[str, Any]:
    """The instance of this ID, or a running one of the cluster and the capacity type, chosen by the seed from the
    instances in launch order.
    """
    own = [
        instance
        for instance in sandbox.ec2().instances()
        if instance["tags"].get(labels.TAG_CLUSTER) == sandbox.cluster_name
    ]
    running = [
        item
        for item in own
        if item["state"] == "running" and capacity_type in ("", item["capacity_type"]) and not instance
    ]
    result = [item for item in own if item["id"] == instance] or running
    if not result:
        text = f"no instance {instance}" if instance else f"no running {capacity_type} instance".replace("  ", " ")
        raise SandboxError(f"The cluster {sandbox.cluster_name} has {text}.")
    choice = random.Random(seed).choice(result)
    return {"instance": choice["id"], "claim": choice["tags"].get(labels.TAG_NODECLAIM, "")}
