"""What an instance would have cost if EC2 had not refused the cheaper offerings of the same request.

A request names up to 60 instance types. EC2 buys the cheapest that it has, which may cost many times the first choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.ec2.avoided import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import FleetOverride, Instance, LaunchRequest, OfferingRef


def cheapest_refused(
    request: LaunchRequest, refused: Sequence[OfferingRef], instance: Instance
) -> FleetOverride | None:
    """Return the cheapest offering of the request that EC2 refused in favor of the instance; None if it refused none.

    A place in a capacity reservation is paid for already, so it has no such offering.

    Args:
        request: the request that bought the instance.
        refused: the offerings that EC2's answer rules out.
        instance: the instance.
    """
    if request.capacity_type == labels.RESERVED or not refused:
        return None
    without = UnavailableOfferings(one.key for one in refused)
    cheaper = (
        row
        for template in request.templates
        for row in template.overrides
        if row.price < instance.price and OfferingKey(request.capacity_type, row.instance_type, row.zone) in without
    )
    return min(cheaper, key=lambda row: (row.price, row.instance_type, row.zone), default=None)
