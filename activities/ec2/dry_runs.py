"""Tries out the calls of a launch as dry runs, so that a missing right shows on the EC2NodeClass before a pod waits.

EC2 also says here that the instance profile that a class names does not exist, so Tenon need not ask IAM.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from botocore.exceptions import ClientError

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.ec2.launch import fleet_parameters
from activities.ec2.launch_templates import template_parameters
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.families.base import UserDataTooLargeError
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.launch.dry_runs import REASONS, Trial, trials_of
from tenon.ec2.nodeclass.status import PASSED, CheckResult
from tenon.ec2.refusals.errors import reason_for
from tenon.ec2.refusals.scopes import PROFILE_APPEARS_WITHIN, PROFILE_INVALID, USER_DATA_TOO_LARGE
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import InstanceType

ALLOWED = "DryRunOperation"
"""EC2's error for a dry run of a call that it would have accepted."""
PROFILE_NOT_FOUND = "InstanceProfileNotFound"


class NewProfileError(EC2Error):
    """EC2 does not know an instance profile yet that Tenon has just created. Try again soon."""

    def __init__(self, name: str) -> None:
        super().__init__(
            PROFILE_NOT_FOUND,
            f"EC2 does not know the new instance profile {name} yet; it takes seconds",
            retryable=True,
        )


class DryRuns:
    """The dry runs of the EC2NodeClasses of one cluster. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        cluster: Callable[[EC2NodeClass], Cluster],
        instance_types: Callable[[EC2NodeClass], Sequence[InstanceType]],
        again_after: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``again_after``: how long a trial that passed is not repeated while the class and its resources stay."""
        self._clients = clients
        self._cluster = cluster
        self._instance_types = instance_types
        self._seconds = again_after.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._passed: dict[str, float] = {}
        """Digests of trials that passed, and when to repeat them."""
        self._unknown_since: dict[str, float] = {}
        """The instance profiles of Tenon's own that EC2 does not know, and since when."""

    def check(self, node_class: EC2NodeClass, pool_requirements: Sequence[Requirements]) -> CheckResult:
        """Try out a launch of a resolved class. The result names each call that AWS refuses for lack of a right, and an
        instance profile that does not exist.

        Another refusal says nothing about rights, and the launch itself would report it. ``pool_requirements`` are
        those of each NodePool of the class, whose instance types are tried out.

        Raises:
            NewProfileError: EC2 does not know the class's instance profile yet. A launch would be refused, and a group
                of launches would break up.
            EC2Error: AWS throttled a call or did not answer.
        """
        try:
            cluster, instance_types = self._cluster(node_class), self._instance_types(node_class)
            trials = list(trials_of(node_class, cluster, instance_types, pool_requirements))
        except UserDataTooLargeError as error:  # only with what a launch adds to it
            return CheckResult(USER_DATA_TOO_LARGE, str(error))
        refused = [refusal for trial in trials for refusal in self._refused(trial, node_class)]
        if not refused:
            return PASSED
        return CheckResult(refused[0][0], "; ".join(dict.fromkeys(sentence for _, sentence in refused)))

    def _refused(self, trial: Trial, node_class: EC2NodeClass) -> list[tuple[str, str]]:
        """The reason and the sentence of each call of a trial that AWS refuses for lack of a right or of a profile."""
        now = self._clock()
        own_profile = "" if node_class.spec.instance_profile else node_class.status.instance_profile or ""
        with self._lock:
            self._passed = {digest: until for digest, until in self._passed.items() if until > now}
            if trial.digest in self._passed:
                return []
        refused: list[tuple[str, str]] = []
        calls = self._calls(trial)
        for operation in trial.operations:
            try:
                with translated(operation):
                    _dry_run(calls[operation])
            except EC2Error as error:
                if error.retryable:
                    raise
                if error.unauthorized:
                    refused.append((REASONS[operation], error.explained))
                elif reason_for(error.code, error.message) == PROFILE_INVALID:
                    if own_profile and self._may_appear(own_profile):
                        raise NewProfileError(own_profile) from error
                    if profile := node_class.spec.instance_profile:
                        missing = f"EC2 knows no instance profile {profile}: create it, or name another"
                        refused.append((PROFILE_NOT_FOUND, f"{missing} in spec.instanceProfile"))
        if not refused:
            with self._lock:
                self._passed[trial.digest] = now + self._seconds
                self._unknown_since.pop(own_profile, None)
        return refused

    def _may_appear(self, profile: str) -> bool:
        """Whether EC2 may yet get to know a profile of Tenon's own. After that, the launches themselves report it."""
        now = self._clock()
        with self._lock:
            return now - self._unknown_since.setdefault(profile, now) < PROFILE_APPEARS_WITHIN.total_seconds()

    def _calls(self, trial: Trial) -> dict[str, Callable[[], Any]]:
        ec2 = self._clients.ec2
        template = template_parameters(trial.plan.templates[0])
        fleet = fleet_parameters(trial.plan.request)
        return {
            "CreateLaunchTemplate": lambda: ec2.create_launch_template(DryRun=True, **template),
            "CreateFleet": lambda: ec2.create_fleet(DryRun=True, **fleet),
            "RunInstances": lambda: ec2.run_instances(DryRun=True, **cast("Any", trial.run_instances)),
        }


def _dry_run(call: Callable[[], Any]) -> None:
    try:
        call()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != ALLOWED:
            raise
