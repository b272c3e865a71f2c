"""Publishes what users should know of an EC2NodeClass that works: unknown prices, and user data near its limit."""

from __future__ import annotations

from typing import Protocol

from activities.kubernetes.events import EventPublisher
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.ec2.families.base import size_warning
from tenon.kube.event_reasons import EventReason


class WarningSource(Protocol):
    """What `activities.ec2.provider.Ec2Provider` says about it."""

    def price_warnings(self) -> list[str]:
        """Which prices are not known."""
        ...

    def user_data_bytes(self, node_class: EC2NodeClass) -> int:
        """The size of the user data."""
        ...


async def publish_warnings(
    recorder: EventPublisher, ec2: WarningSource, raw: JsonObject, node_class: EC2NodeClass
) -> None:
    """Publish the warnings about a class on its object."""
    for warning in ec2.price_warnings():
        await recorder.publish(raw, EventReason.PRICES_UNKNOWN, warning)
    if warning := size_warning(ec2.user_data_bytes(node_class)):
        await recorder.publish(raw, EventReason.USER_DATA_NEAR_LIMIT, warning)
