"""The AMI families, one module each, by the name that a class gives them."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis.ami_families import AMIFamily, require_every_family
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.families.al2 import AL2
from tenon.ec2.families.al2023 import AL2023
from tenon.ec2.families.base import Family
from tenon.ec2.families.bottlerocket import BOTTLEROCKET
from tenon.ec2.families.custom import CUSTOM
from tenon.ec2.families.windows import WINDOWS2019, WINDOWS2022, WINDOWS2025

FAMILIES: Mapping[AMIFamily, Family] = {
    family.name: family for family in (AL2, AL2023, BOTTLEROCKET, CUSTOM, WINDOWS2019, WINDOWS2022, WINDOWS2025)
}
require_every_family(FAMILIES, "FAMILIES of tenon.ec2.families")


def family_of(node_class: EC2NodeClass) -> Family:
    """Return the family that sets up the nodes of the class."""
    return FAMILIES[node_class.spec.resolved_family]
