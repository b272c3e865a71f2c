"""Launch templates of one cluster: a launch creates those that it needs, and their EC2NodeClass deletes them.

A template never changes, because its name is a digest of its content.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, retry_throttled, translated
from activities.ec2.single_flight import SingleFlight
from tenon.apis import labels
from tenon.ec2.launch.template import LaunchTemplate, tag_list
from tenon.ec2.refusals import errors as codes
from tenon.garbage_collection.facts import ObservedTemplate
from tenon.messages.teardown import ClusterTemplate
from tenon.teardown.ownership import owns

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import FilterTypeDef, LaunchTemplateTypeDef

KNOWN_SECONDS = 60.0
"""How long a template is assumed to exist without a check. Others may delete it."""


class LaunchTemplates:
    """The launch templates of one cluster. Thread-safe."""

    def __init__(self, clients: Ec2, cluster: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._cluster = cluster
        self._clock = clock
        self._existing: SingleFlight[None] = SingleFlight(KNOWN_SECONDS, clock)

    def ensure(self, templates: Iterable[LaunchTemplate], *, afresh: bool = False) -> None:
        """Create the templates that are not known to exist. A template that already exists is used as it is.

        Concurrent launches that need the same template wait for the one that creates it. ``afresh`` ignores what is
        known to exist, because a launch, perhaps on another replica, has just failed for lack of a template.
        """
        for template in templates:
            if afresh:
                self._existing.forget(template.name)
            self._existing.get(template.name, partial(self._create, template))

    def _create(self, template: LaunchTemplate) -> None:
        try:
            retry_throttled(
                "CreateLaunchTemplate",
                lambda: self._clients.ec2.create_launch_template(**template_parameters(template)),
                self._clock,
            )
        except EC2Error as error:
            if error.code not in codes.TEMPLATE_EXISTS:
                raise

    def delete_of_class(self, node_class: str) -> int:
        """Delete all launch templates of a node class. Return how many there were."""
        deleted: set[str] = set()
        while names := self._names(node_class) - deleted:
            for name in sorted(names):
                try:
                    with translated("DeleteLaunchTemplate"):
                        self._clients.ec2.delete_launch_template(LaunchTemplateName=name)
                except EC2Error as error:
                    if not error.not_found:
                        raise
            deleted |= names
        self.forget(deleted)
        return len(deleted)

    def forget(self, names: Iterable[str]) -> None:
        """Check these templates before the next launch: EC2 does not find one of them any more."""
        for name in names:
            self._existing.forget(name)

    def of_cluster(self) -> list[ObservedTemplate]:
        """All launch templates of the cluster that were created for an EC2NodeClass. Others do not belong to Tenon."""
        return [
            ObservedTemplate(
                id=template["LaunchTemplateId"],
                name=template["LaunchTemplateName"],
                created_at=template["CreateTime"],
                node_class=next((t["Value"] for t in template.get("Tags", []) if t["Key"] == labels.TAG_NODECLASS), ""),
            )
            for template in self._described({"Name": "tag-key", "Values": [labels.TAG_NODECLASS]})
        ]

    def owned(self) -> list[ClusterTemplate]:
        """All launch templates that belong to the cluster, for its teardown."""
        return [
            ClusterTemplate(id=template["LaunchTemplateId"], name=template["LaunchTemplateName"])
            for template in self._described({"Name": "tag-key", "Values": [labels.TAG_NODEPOOL]})
            if owns({tag["Key"]: tag["Value"] for tag in template.get("Tags", [])}, self._cluster)
        ]

    def delete(self, template: ObservedTemplate | ClusterTemplate) -> bool:
        """Delete exactly this template, not a newer one of the same name. Return False if it is gone already."""
        self._existing.forget(template.name)
        try:
            with translated("DeleteLaunchTemplate"):
                self._clients.ec2.delete_launch_template(LaunchTemplateId=template.id)
        except EC2Error as error:
            # Under a policy that asks for tags, EC2 refuses the call for a template that does not exist.
            if error.not_found or (error.code in codes.UNAUTHORIZED and not self._exists(template.id)):
                return False
            raise
        return True

    def _exists(self, template_id: str) -> bool:
        try:
            with translated("DescribeLaunchTemplates"):
                self._clients.ec2.describe_launch_templates(LaunchTemplateIds=[template_id])
        except EC2Error as error:
            if error.not_found:
                return False
            raise
        return True

    def _names(self, node_class: str) -> set[str]:
        templates = self._described({"Name": f"tag:{labels.TAG_NODECLASS}", "Values": [node_class]})
        return {template["LaunchTemplateName"] for template in templates}

    def _described(self, tag_filter: FilterTypeDef) -> list[LaunchTemplateTypeDef]:
        """The templates of the cluster that pass the filter."""
        ours: FilterTypeDef = {"Name": f"tag:{labels.TAG_CLUSTER}", "Values": [self._cluster]}
        with translated("DescribeLaunchTemplates"):
            pages = self._clients.ec2.get_paginator("describe_launch_templates").paginate(Filters=[ours, tag_filter])
            return [template for page in pages for template in page["LaunchTemplates"]]


def template_parameters(template: LaunchTemplate) -> dict[str, Any]:
    """The CreateLaunchTemplate parameters."""
    return {
        "LaunchTemplateName": template.name,
        "LaunchTemplateData": template.data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tag_list(template.tags)}],
    }
