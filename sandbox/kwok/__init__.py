"""KWOK simulates part of the kubelets: heartbeats, and the start and stop of pods. Its contract with the EC2 joiner.

The joiner (``sandbox.ec2``) simulates the boot of instances and the kubelet's admission of pods. KWOK decides neither.
They communicate through annotations:

* Node ``kwok.x-k8s.io/node: fake``: KWOK manages this node and its pods. Nodes without it do not belong to the sandbox.
* Node ``sandbox.tenon.sh/kubelet: ready``: the kubelet is up. KWOK writes the Ready conditions and renews their
  heartbeats. Without it KWOK writes nothing to the node, so that the creator of the node decides when it becomes Ready.
  If the annotation is removed, the heartbeats stop after at most one more, like those of a dead kubelet. The node
  lifecycle controller then sets the node to Unknown after ``NODE_GRACE_SECONDS``.
* Pod ``sandbox.tenon.sh/admitted: "true"``: the kubelet admitted the pod. KWOK starts only such pods, so that the
  joiner can fail a pod that does not fit or is not tolerated (phase Failed, reason OutOfcpu and so on). The joiner
  handles every node with the first annotation, whether or not it has an instance.

A pod that is being deleted goes away immediately, admitted or not, when it has no finalizers. Tests and demos control a
pod with these annotations:

* ``sandbox.tenon.sh/stop: slow``: the pod uses its whole grace period before it goes.
* ``sandbox.tenon.sh/complete-after: 5s``: the pod succeeds this long after it started to run.

``stages.yaml`` holds the stages. It repeats the names of the annotations, because KWOK reads it as plain YAML.
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
"""Seconds after the last heartbeat until a node becomes Unknown. Three heartbeats may be late on a busy machine."""

STAGES = Path(__file__).with_name("stages.yaml")


def config() -> str:
    """The content of KWOK's configuration file: its options and the stages."""
    items = yaml.safe_load(STAGES.read_text())["items"]
    return yaml.safe_dump_all(items, sort_keys=False)
