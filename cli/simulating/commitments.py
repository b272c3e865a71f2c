"""Reads what Reserved Instances and Savings Plans do for a live cluster, as the worker does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from activities.clock import utc_now
from activities.ec2.account_commitments import AccountCommitmentsReader
from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.pricing import Pricing
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.commitments.coverage import NO_COVERAGE, Coverage, coverage_of
from tenon.ec2.types.capacity_reservations import region_of
from tenon.kube.claim_record import ClaimRecord


def read_coverage(node_classes: Iterable[EC2NodeClass], claims: Sequence[ClaimRecord], notes: list[str]) -> Coverage:
    """Ask AWS what the account has bought and what runs in it.

    The region is that of the classes' subnets, because the shell's may be another one. If AWS refuses or does not
    answer, nothing is covered, as for a worker that never got an answer, and a note says why.
    """
    regions = {region_of(subnet.zone) for node_class in node_classes for subnet in node_class.status.subnets} - {""}
    if len(regions) != 1:
        notes.append(
            "Reserved Instances and Savings Plans are not used: the EC2NodeClasses have no subnets of one region"
        )
        return NO_COVERAGE
    own_ids = frozenset(claim.instance_id for claim in claims if claim.instance_id)
    try:
        clients = Ec2(regions.pop())
        catalogue = Catalogue(clients, Pricing(clients))
        account = AccountCommitmentsReader(clients, catalogue.vcpus, utc_now).read("", own_ids)
    except EC2Error as error:
        notes.append(f"Reserved Instances and Savings Plans are not known, and the plan uses none: {error.explained}")
        return NO_COVERAGE
    return coverage_of(account, claims)
