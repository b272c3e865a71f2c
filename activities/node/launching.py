"""The steps "prepare launch" and "launch" of one process, with what they share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_failures import LaunchFailures
from activities.node.launch_groups import LaunchGroups
from activities.node.launch_parts import SENDERS, LaunchParts
from activities.node.launch_preparation import LaunchPreparation
from activities.node.launch_record import LaunchRecord
from activities.node.launch_sending import LaunchSending
from activities.node.launched_claims import LaunchedClaims
from activities.node.lost_instances import LostInstances
from activities.node.throttled_launches import ThrottledLaunches
from activities.record.writer import NO_RECORD, RecordWriter


class Launching:
    """Prepares and sends launches."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        now: Callable[[], datetime],
        initialization_timeout: timedelta | None = None,
        breakers: LaunchBreakers | None = None,
        tries: Callable[[], int] | None = None,
        record: RecordWriter = NO_RECORD,
        namespace: str = "tenon",
    ) -> None:
        """Create it.

        Args:
            tries: returns the number of the current attempt of the activity, starting at 1.
            namespace: that of Tenon, where the versions of NodePools are recorded.
        """
        breakers = breakers or LaunchBreakers(now)
        self.parts = LaunchParts(
            kube=kube,
            recorder=recorder,
            provider=ec2,
            now=now,
            record=LaunchRecord(record, now),
            claims=LaunchedClaims(kube, ec2, now, namespace),
            groups=LaunchGroups(kube, now),
            lost=LostInstances(kube, recorder, ec2, now),
            throttled=ThrottledLaunches(kube, ec2, now),
            breakers=breakers,
            failures=LaunchFailures(kube, recorder, breakers, now, tries),
            senders=ThreadPoolExecutor(SENDERS, thread_name_prefix="launch"),
        )
        self.prepare = LaunchPreparation(self.parts, initialization_timeout).prepare
        self.launch = LaunchSending(self.parts).launch
