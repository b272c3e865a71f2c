"""Which of EC2's refusals are about the EC2NodeClass, so that NodePools of other classes go on."""

from __future__ import annotations

import pytest

from tenon.ec2.refusals.class_faults import ClassFault, class_fault

DENIED = "You are not authorized to perform: {right} on resource: {resource}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidIamInstanceProfile.NotFound", ""),
        ("InvalidParameterValue", "Value (nodes) for parameter iamInstanceProfile.name is invalid"),
        ("InvalidGroup.NotFound", "The security group 'sg-1' does not exist"),
        ("InvalidSecurityGroupID.NotFound", ""),
        ("InvalidSubnetID.NotFound", ""),
        ("InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks"),
        ("InvalidUserData.Malformed", ""),
        ("InvalidParameterValue", "User data is limited to 16384 bytes"),
        ("UnauthorizedOperation", DENIED.format(right="iam:PassRole", resource="arn:aws:iam::1:role/nodes")),
        ("UnauthorizedOperation", DENIED.format(right="ec2:RunInstances", resource="arn:aws:ec2:r:1:subnet/subnet-1")),
    ],
)
def test_aws049_what_all_instances_of_a_class_have_in_common(code: str, message: str) -> None:
    assert class_fault(code, message) is ClassFault.WHOLE


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidAMIID.NotFound", ""),
        ("InvalidAMIID.Unavailable", ""),
        ("AuthFailure", "Not authorized for images: [ami-1]"),
        ("InvalidBlockDeviceMapping", "Volume of size 8GB is smaller than snapshot 'snap-1', expect size >= 20GB"),
        ("InvalidSnapshot.NotFound", ""),
        ("UnauthorizedOperation", DENIED.format(right="ec2:RunInstances", resource="arn:aws:ec2:r::image/ami-1")),
    ],
)
def test_aws049_an_image_is_refused_for_the_types_that_use_it(code: str, message: str) -> None:
    assert class_fault(code, message) is ClassFault.IMAGE


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("UnauthorizedOperation", "you may not"),
        ("UnauthorizedOperation", DENIED.format(right="ec2:RunInstances", resource="arn:aws:ec2:r:1:instance/*")),
        ("UnauthorizedOperation", DENIED.format(right="ec2:CreateFleet", resource="arn:aws:ec2:r:1:fleet/*")),
        ("AuthFailure", "AWS was not able to validate the provided access credentials"),
        ("PendingVerification", ""),
        ("InvalidParameterValue", "something else"),
        ("InvalidLaunchTemplateName.NotFoundException", ""),
        ("NeverHeardOf", ""),
    ],
)
def test_aws049_other_refusals_are_not_about_a_class(code: str, message: str) -> None:
    assert class_fault(code, message) is ClassFault.NONE


def test_a_template_that_ec2_refuses_is_made_from_the_class() -> None:
    assert class_fault("InvalidParameterValue", "tag", "CreateLaunchTemplate") is ClassFault.WHOLE
