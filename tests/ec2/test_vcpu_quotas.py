"""Which instance types share a vCPU quota, and what a quota that is used up rules out."""

from __future__ import annotations

import pytest

from sandbox.ec2 import catalogue
from sandbox.ec2.quotas import ON_DEMAND, SPOT, quota_code
from sandbox.ec2.region import REGION
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.ec2.refusals.vcpu_quotas import STANDARD, quota_of
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.unavailable_offerings import unavailable_annotation, unavailable_offerings


@pytest.mark.parametrize(
    ("name", "quota"),
    [
        *[(name, STANDARD) for name in ("c5.large", "m7i-flex.large", "im4gn.large", "is4gen.medium", "t3.micro")],
        *[(name, "G and VT") for name in ("g4dn.xlarge", "g6e.48xlarge", "gr6.4xlarge", "vt1.3xlarge")],
        ("p5.48xlarge", "P"),
        ("u-6tb1.metal", "High Memory"),
        ("u7i-12tb.224xlarge", "High Memory"),
        ("hpc7g.4xlarge", "HPC"),
        ("x2gd.medium", "X"),
        ("inf2.xlarge", "Inf"),
        ("trn1n.32xlarge", "Trn"),
        ("cr-0123", ""),
    ],
)
def test_families_share_quotas_as_ec2_groups_them(name: str, quota: str) -> None:
    assert quota_of(name, "on-demand") == quota


def test_p5_has_its_own_quota_for_spot() -> None:
    assert quota_of("p5en.48xlarge", "spot") != quota_of("p4d.24xlarge", "spot")
    assert quota_of("p3.2xlarge", "spot") == quota_of("p4d.24xlarge", "spot")
    assert quota_of("p5en.48xlarge", "on-demand") == quota_of("p4d.24xlarge", "on-demand")


@pytest.mark.parametrize(("capacity_type", "table"), [("on-demand", ON_DEMAND), ("spot", SPOT)])
def test_types_that_the_simulated_account_counts_together_share_a_quota(
    capacity_type: str, table: dict[str, str]
) -> None:
    by_code: dict[str, set[str]] = {code: set() for code in table}
    for name in catalogue.regional_types(REGION):
        if code := quota_code(name, capacity_type):
            by_code[code].add(quota_of(name, capacity_type))
    names = [quota for quotas in by_code.values() for quota in quotas]
    assert all(len(quotas) <= 1 for quotas in by_code.values()), by_code
    assert len(names) == len(set(names))


def test_a_used_up_quota_rules_out_its_types_for_one_capacity_type() -> None:
    unavailable = UnavailableOfferings([OfferingKey.of_quota("spot", "G and VT")])
    assert OfferingKey("spot", "g5.xlarge", "us-west-2c") in unavailable
    assert OfferingKey("on-demand", "g5.xlarge", "us-west-2c") not in unavailable
    assert OfferingKey("spot", "m5.large", "us-west-2c") not in unavailable


def test_a_nodeclaim_names_the_used_up_quotas_and_refused_types_of_its_types() -> None:
    quota, kind = OfferingKey.of_quota("spot", "G and VT"), OfferingKey("on-demand", "g5.xlarge", "")
    unavailable = [quota, kind, OfferingKey.of_quota("spot", "P"), OfferingKey("spot", "", "")]
    assert unavailable_offerings(unavailable_annotation(["g5.xlarge"], unavailable)) == {quota, kind}
    assert unavailable_annotation(["m5.large"], unavailable) == {}


def test_a_family_that_no_known_quota_covers_has_one_of_its_own() -> None:
    """A refusal of it must not hide the standard families, nor theirs hide it."""
    assert quota_of("q1.large", "on-demand") == quota_of("q1.8xlarge", "spot") != quota_of("m5.large", "on-demand")
