"""The steps in EC2 and IAM: what a cluster has by its tags, and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.ec2.profiles import UnreachableIamError
from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from tenon.messages.base import ActivityName, ErrorType
from tenon.messages.teardown import (
    MAX_LISTED,
    ClusterInstance,
    ClusterProfile,
    Leftover,
    RemovedThings,
    RemoveResourcesInput,
    Survey,
    TeardownInput,
    TerminateRoundInput,
    TerminateRoundResult,
)
from tenon.teardown.report import ALL, PROFILE, TEMPLATE
from tenon.teardown.rounds import INSTANCE

log = loggers.TEARDOWN

BATCH = 100
"""How many instances one call terminates. If EC2 refuses one of them, the call ends none, and each is asked alone."""
MAX_REFUSALS = 100
"""The most refusals of a round that are reported."""
Answer = TypeVar("Answer")


class ClusterResources:
    """The activities of a teardown in EC2 and IAM, for the cluster of ``ec2``."""

    def __init__(self, ec2: Ec2Provider) -> None:
        self._ec2 = ec2

    def all(self) -> list[Callable[..., Any]]:
        """The activities to register."""
        return [self.survey, self.terminate, self.remove]

    @activity.defn(name=ActivityName.SURVEY_CLUSTER)
    async def survey(self, teardown_input: TeardownInput) -> Survey:
        """Look up all that belongs to the cluster."""
        self._check(teardown_input.cluster)
        instances, managed = await _read(self._ec2.cluster_instances)
        living = _sorted(instance for instance in instances if instance.state != "shutting-down")
        templates = await _read(self._ec2.cluster_templates)
        profiles, stays = await self._profiles()
        stays += [Leftover(kind=INSTANCE, name=name, why=why) for name, why in managed.items()]
        return Survey(
            region=self._ec2.cluster.region,
            instances=living[:MAX_LISTED],
            instance_count=len(living),
            price=sum(instance.price for instance in living),
            unpriced=sum(not instance.price for instance in living),
            templates=sorted(templates, key=lambda template: template.name)[:MAX_LISTED],
            template_count=len(templates),
            profiles=profiles[:MAX_LISTED],
            profile_count=len(profiles),
            stays=stays[:MAX_LISTED],
        )

    @activity.defn(name=ActivityName.TERMINATE_CLUSTER)
    async def terminate(self, round_input: TerminateRoundInput) -> TerminateRoundResult:
        """Terminate all living instances of the cluster, except those that EC2 refused too often."""
        self._check(round_input.cluster)
        instances, _ = await _read(self._ec2.cluster_instances)
        given_up = set(round_input.refused)
        living = _sorted(item for item in instances if item.state != "shutting-down" and item.id not in given_up)
        refusals: dict[str, str] = {}
        ids = [instance.id for instance in living]
        for start in range(0, len(ids), BATCH):
            outcomes = await _call(partial(self._ec2.terminate_instances, ids[start : start + BATCH]))
            for instance_id, outcome in outcomes.items():
                if isinstance(outcome, EC2Error) and not outcome.retryable:
                    refusals[instance_id] = outcome.explained
                    extra = {"instance": instance_id, "error": outcome.explained}
                    log.warning("EC2 refuses to terminate an instance of a cluster that ends", extra=extra)
        if living:
            log.info(
                "The instances of a cluster that ends are terminated",
                extra={"cluster": round_input.cluster, "instance-count": len(living) - len(refusals)},
            )
        return TerminateRoundResult(
            alive=living[:MAX_LISTED],
            alive_count=len(living),
            leaving_count=sum(instance.state == "shutting-down" for instance in instances),
            refusals=dict(list(refusals.items())[:MAX_REFUSALS]),
        )

    @activity.defn(name=ActivityName.REMOVE_RESOURCES)
    async def remove(self, remove_input: RemoveResourcesInput) -> RemovedThings:
        """Delete launch templates and, if no instance is left, instance profiles. A refusal stops no other."""
        self._check(remove_input.cluster)
        removed: dict[str, list[str]] = {TEMPLATE: [], PROFILE: []}
        leftovers: list[Leftover] = []
        for template in await _read(self._ec2.cluster_templates):
            try:
                await _call(partial(self._ec2.delete_launch_template, template))
                removed[TEMPLATE].append(template.name)
            except EC2Error as error:
                if error.retryable:
                    raise
                leftovers.append(Leftover(kind=TEMPLATE, name=template.name, why=error.explained))
        profiles, unlisted = await self._profiles()
        leftovers += unlisted
        for profile in profiles:
            if remove_input.has_instances:
                why = "instances of the cluster are left, and one without its profile loses its rights"
                leftovers.append(Leftover(kind=PROFILE, name=profile.name, why=why))
                continue
            try:
                await _call(partial(self._ec2.delete_profile, profile.name, profile.roles))
                removed[PROFILE].append(profile.name)
            except EC2Error as error:
                if error.retryable:
                    raise
                leftovers.append(Leftover(kind=PROFILE, name=profile.name, why=error.explained))
        names = {kind: sorted(kind_names)[:MAX_LISTED] for kind, kind_names in removed.items() if kind_names}
        return RemovedThings(removed=names, leftovers=leftovers[:MAX_LISTED])

    async def _profiles(self) -> tuple[list[ClusterProfile], list[Leftover]]:
        """The instance profiles of the cluster; and why they stay if they cannot be listed."""
        try:
            profiles = await _call(self._ec2.cluster_profiles)
        except UnreachableIamError as error:
            return [], [Leftover(kind=PROFILE, name=ALL, why=str(error))]
        except EC2Error as error:
            if error.retryable:
                raise
            return [], [Leftover(kind=PROFILE, name=ALL, why=error.explained)]
        return sorted(profiles, key=lambda profile: profile.name), []

    def _check(self, cluster: str) -> None:
        """Refuse to end another cluster than the worker's own.

        Raises:
            ApplicationError: the names differ.
        """
        if cluster != self._ec2.cluster.name:
            raise ApplicationError(
                f"This worker serves cluster {self._ec2.cluster.name}, and ends nothing of cluster {cluster}: "
                "start the teardown with the name of its own cluster",
                type=ErrorType.INVALID.value,
                non_retryable=True,
            )


async def _read(function: Callable[[], Answer]) -> Answer:
    """Ask AWS what is there.

    Raises:
        ApplicationError: AWS refuses to tell, which the same call would not change.
    """
    try:
        return await _call(function)
    except EC2Error as error:
        if error.retryable:
            raise
        raise ApplicationError(error.explained, type=type(error).__name__, non_retryable=True) from error


async def _call(function: Callable[[], Answer]) -> Answer:
    return await with_heartbeat(asyncio.to_thread(function))


def _sorted(instances: Iterable[ClusterInstance]) -> list[ClusterInstance]:
    return sorted(instances, key=lambda instance: instance.id)
