"""Orphans in EC2, together with resources of a second cluster that must be left alone."""

from __future__ import annotations

import random
from typing import Annotated, Any

from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.region import ZONES
from sandbox.faults.registry import Done, fault
from tenon.apis import labels

MARK = "sandbox.tenon.sh/orphan"
"""A tag on everything that this fault creates, to find it by."""
OTHER_CLUSTER = "another"
KINDS = ("instance", "unnamed-instance", "launch-template", "foreign-instance", "foreign-launch-template")
TYPES = ("m7g.large", "c7g.large", "m7i.large", "c7i.xlarge")


def _remove(sandbox: Sandbox) -> None:
    """Remove what remains of the orphans."""
    admin = sandbox.ec2()
    for instance in admin.instances():
        if MARK in instance["tags"] and instance["state"] not in ("shutting-down", "terminated"):
            admin.vanish_instance(instance["id"])
    ec2 = sandbox.aws("ec2")
    pages = ec2.get_paginator("describe_launch_templates").paginate(Filters=[{"Name": "tag-key", "Values": [MARK]}])
    for name in [template["LaunchTemplateName"] for page in pages for template in page["LaunchTemplates"]]:
        ec2.delete_launch_template(LaunchTemplateName=name)


@fault("orphans", heal=_remove)
def orphans(
    sandbox: Sandbox,
    count: Annotated[int, "How many in all."] = 20,
    seed: Annotated[int, "Seed of the random mix: the same seed makes the same mix."] = 0,
    age: Annotated[float, "Seconds since their launch or creation."] = 3600.0,
    kinds: Annotated[str, f"Of these kinds, separated by commas: {', '.join(KINDS)}; empty for all."] = "",
) -> Done:
    """Instances and launch templates without a NodeClaim appear, some of them a second cluster's.

    A claim without instance is made by instance-vanished, a claim without workflow by workflow-terminated.
    """
    expectation = [kind.strip() for kind in kinds.split(",") if kind.strip()] or list(KINDS)
    unknown = sorted(set(expectation) - set(KINDS))
    if unknown:
        raise ValueError(f"unknown kind {unknown[0]}: give one or more of {', '.join(KINDS)}")
    draw = random.Random(seed)
    mix = [expectation[number % len(expectation)] for number in range(count)]
    draw.shuffle(mix)
    admin, cluster = sandbox.ec2(), sandbox.cluster_name
    return [_plant(admin, cluster, draw, f"orphan-{seed}-{number}", kind, age) for number, kind in enumerate(mix)]


def _plant(admin: Ec2Admin, cluster: str, draw: random.Random, name: str, kind: str, age: float) -> dict[str, Any]:
    instance_type, zone = draw.choice(TYPES), draw.choice(ZONES[:3])
    capacity_type = draw.choice((labels.SPOT, labels.ON_DEMAND))
    owner = OTHER_CLUSTER if kind.startswith("foreign") else cluster
    tags = {
        MARK: name,
        f"kubernetes.io/cluster/{owner}": "owned",
        labels.TAG_CLUSTER: owner,
        labels.TAG_NODECLASS: "default",
        labels.TAG_NODEPOOL: "default",
    }
    row = {"kind": kind, "name": name, "cluster": owner}
    if kind.endswith("launch-template"):
        template = f"{labels.AWS_GROUP}/{owner}/{name}"
        return row | {"id": admin.plant_launch_template(template, tags, age_seconds=age)}
    if kind != "unnamed-instance":
        tags |= {"Name": name, labels.TAG_NODECLAIM: name}
    where: dict[str, Any] = {"type": instance_type, "zone": zone, "capacity_type": capacity_type}
    return row | {"id": admin.plant_instance(tags, **where, age_seconds=age)}
