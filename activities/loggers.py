"""All loggers. Operators filter log lines by these names, so they name the parts of Tenon, and not its modules.

Where Karpenter has the same part, the name is Karpenter's.
"""

from __future__ import annotations

import logging


def controller(name: str) -> logging.Logger:
    """The logger of a controller. All of them are below ``controller``."""
    return logging.getLogger(f"controller.{name}")


def library(name: str) -> logging.Logger:
    """The logger of a library, to configure it. An empty name stands for the root of all loggers."""
    return logging.getLogger(name)


PROVISIONER = controller("provisioner")
DISRUPTION = controller("disruption")
NODECLAIM_LIFECYCLE = controller("nodeclaim.lifecycle")
NODECLAIM_BINDING = controller("nodeclaim.binding")
NODECLASS = controller("nodeclass")
GARBAGE_COLLECTION = controller("garbagecollection")
TEARDOWN = controller("teardown")
CAPACITY_BUFFER = controller("capacitybuffer")
WARM_NODES = controller("nodepool.warm")
LEGACY = controller("legacy")
INSTANCE_TYPES = controller("providers.instancetype")
PRICING = controller("providers.pricing")
VERSION = controller("providers.version")
CLUSTER = controller("providers.cluster")
RATE_LIMITS = controller("providers.ratelimits")
RIGHTS = controller("providers.rights")

PROCESS = logging.getLogger("worker.process")
SETTINGS = logging.getLogger("worker.settings")
CACHE = logging.getLogger("worker.cache")
KUBERNETES = logging.getLogger("worker.kubernetes")
EVENTS = logging.getLogger("worker.events")
RECORD = logging.getLogger("worker.record")
TRACING = logging.getLogger("worker.tracing")
TEMPORAL = logging.getLogger("worker.temporal")
LEADER_ELECTION = logging.getLogger("worker.leaderelection")
WEBHOOK = logging.getLogger("worker.webhook")
WEBHOOK_HTTP = logging.getLogger("worker.webhook.http")

SANDBOX_EC2 = logging.getLogger("sandbox.ec2")
SANDBOX_KUBELET = logging.getLogger("sandbox.kubelet")
