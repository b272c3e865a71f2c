"""Requirements and pods of which the judge's tests build plans."""

from __future__ import annotations

from typing import Any

from tests.oracle.objects import (
    ZONE,
    Object,
    affinity,
    pod,
    within,
)

TAINT: Object = {"key": "t", "value": "x", "effect": "NoSchedule"}
OPEN: Object = {"requirements": [within(ZONE, "a", "b")], "zone": ""}
CLAIMED: Object = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
VOLUME: list[Object] = [
    {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "v"}},
    {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "csi": {"driver": "d"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [within(ZONE, "a")]}]}},
        },
    },
]
PORT: Object = {"ports": [{"containerPort": 80, "hostPort": 80}]}
NEAR: Object = affinity("podAffinity", (ZONE, "web"))
BOTH: Object = affinity("podAffinity", (ZONE, "db"), (ZONE, "cache"))


def app(name: str, app: str, **more: Any) -> Object:
    return pod(name, labels={"app": app}, **more)
