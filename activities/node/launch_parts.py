"""What the two steps of a launch share within one process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_failures import LaunchFailures
from activities.node.launch_groups import LaunchGroups
from activities.node.launch_record import LaunchRecord
from activities.node.launched_claims import LaunchedClaims
from activities.node.lost_instances import LostInstances
from activities.node.throttled_launches import ThrottledLaunches

SENDERS = 64
"""Threads for launches. They may wait long within EC2's rate limits and must not block the threads of other calls."""


@dataclass(frozen=True, slots=True)
class LaunchParts:
    """The connections of the steps, and what one step tells the other."""

    kube: Kube
    recorder: EventPublisher
    provider: Ec2Provider
    now: Callable[[], datetime]
    record: LaunchRecord
    claims: LaunchedClaims
    groups: LaunchGroups
    lost: LostInstances
    throttled: ThrottledLaunches
    breakers: LaunchBreakers
    failures: LaunchFailures
    senders: ThreadPoolExecutor
