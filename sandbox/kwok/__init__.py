"""KWOK plays the kubelets' quiet part: heartbeats, pods that run, pods that stop. The contract with the EC2 joiner.

The joiner (``sandbox.ec2``) plays the instance's boot and the kubelet's admission; KWOK never decides either. They
speak through annotations:

* Node ``kwok.x-k8s.io/node: fake``: KWOK looks at this node and its pods. Nodes without it are not the sandbox's.
* Node ``sandbox.tenon.sh/kubelet: ready``: the kubelet is up. KWOK writes the Ready conditions and keeps their
  heartbeats fresh. Without it KWOK writes nothing to the node, so that whoever made the node decides when it turns
  Ready; take the annotation away and the heartbeats stop after at most one more, as those of a dead kubelet do (the
  node lifecycle controller then calls the node Unknown after ``NODE_GRACE_SECONDS``).
* Pod ``sandbox.tenon.sh/admitted: "true"``: the kubelet took the pod. KWOK starts only such pods, so a pod that does
  not fit or is not tolerated stays for the joiner to fail (phase Failed, reason OutOfcpu and so on). The joiner
  answers for every node with the first annotation, instance or not.

A pod that is being deleted goes at once, admitted or not, once it has no finalizers. Tests and demos steer a pod with
annotations of its own:

* ``sandbox.tenon.sh/stop: slow``: the pod uses its whole grace period before it goes.
* ``sandbox.tenon.sh/complete-after: 5s``: the pod succeeds that long after it began to run.

``stages.yaml`` holds the stages; they name the annotations again because KWOK reads them as plain YAML.
"""

from __future__ import annotations

from pathlib import Path

import yaml

NODE_ANNOTATION = "kwok.x-k8s.io/node"
KUBELET_ANNOTATION = "sandbox.tenon.sh/kubelet"
ADMITTED_ANNOTATION = "sandbox.tenon.sh/admitted"
STOP_ANNOTATION = "sandbox.tenon.sh/stop"
COMPLETE_ANNOTATION = "sandbox.tenon.sh/complete-after"
SYSTEM_NODE = "system-0"

NODE_GRACE_SECONDS = 120
"""A node whose heartbeats stop is called Unknown after this; three heartbeats may be late on a busy machine."""

STAGES = Path(__file__).with_name("stages.yaml")


def config() -> str:
    """KWOK's configuration file: its options and the stages."""
    items = yaml.safe_load(STAGES.read_text())["items"]
    return yaml.safe_dump_all(items, sort_keys=False)
