"""Each code with which EC2 may refuse a launch has a line in Tenon's table, or is no refusal of a launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from tenon.ec2.refusals.class_faults import ClassFault, class_fault
from tenon.ec2.refusals.errors import reason_for
from tenon.ec2.refusals.scopes import FAMILIES, REFUSALS, Scope, refusal_of, scope_of

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "error_codes.json").read_text())
"""What AWS publishes as error codes of EC2: those of all calls, those of some calls, and those of failures of EC2."""
CODES = {code for part in ("common", "actions", "server") for code in PUBLISHED[part]}
NO_REFUSALS: dict[str, list[str]] = json.loads((Path(__file__).parent / "data" / "no_refusals.json").read_text())
"""Those of them that no launch of Tenon gets, by the reason why."""
UNPUBLISHED = {
    "AWS's services in general": {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalServerError",
        "InvalidIdentityToken",
        "RequestTimeout",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "UnrecognizedClientException",
    },
    "answers of EC2 that the page does not list": {
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "FreeTierRestrictionError",
        "InvalidFleetConfiguration",
        "InvalidInstanceType.NotFound",
        "InvalidPlacementGroupId.Unknown",
        "InvalidUserData.Malformed",
        "MaxFleetCountExceeded",
    },
}
"""Codes of the table that are not on AWS's page, by where they are from."""


def test_aws049_each_published_code_is_in_the_table_or_is_no_refusal_of_a_launch() -> None:
    listed = [code for codes in NO_REFUSALS.values() for code in codes]
    forgotten = sorted(code for code in CODES if refusal_of(code) is None and code not in listed)
    assert not forgotten, (
        f"add a line to tenon/ec2/refusals/scopes.py, or say in no_refusals.json why it is none: {forgotten}"
    )
    assert len(listed) == len(set(listed))


def test_no_code_of_the_table_is_called_no_refusal() -> None:
    assert [code for codes in NO_REFUSALS.values() for code in codes if refusal_of(code) or code not in CODES] == []


def test_each_code_of_the_table_is_one_that_aws_uses() -> None:
    """A code with a typing mistake would mean nothing."""
    assert set(REFUSALS) - CODES == set().union(*UNPUBLISHED.values())


def test_no_line_repeats_what_its_family_says() -> None:
    families = {
        code: refusal
        for code, refusal in REFUSALS.items()
        for beginning, family in FAMILIES.items()
        if code.startswith(beginning) and refusal == family
    }
    assert families == {}


@pytest.mark.parametrize("operation", ["CreateFleet", "CreateLaunchTemplate", "RunInstances"])
def test_the_service_model_of_aws_has_no_codes_that_the_page_lacks(operation: str) -> None:
    """It has none at all. If it gets some, `error_codes.json` must have them too."""
    model = botocore.session.get_session().get_service_model("ec2").operation_model(operation)
    assert {shape.metadata["error"]["code"] for shape in model.error_shapes} <= CODES


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        ("InvalidCapacityReservationState.Unavailable", Scope.RESERVATION),
        ("InvalidSubnetId.NotFound", Scope.NODE_CLASS),
        ("InvalidSnapshotID.Malformed", Scope.IMAGE),
        ("NeverHeardOf", None),
    ],
)
def test_codes_that_begin_alike_mean_the_same(code: str, scope: Scope | None) -> None:
    assert scope_of(code) is scope


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("CustomerKeyHasBeenRevoked", ClassFault.IMAGE),
        ("UnknownVolumeType", ClassFault.IMAGE),
        ("AuthFailure", ClassFault.NONE),
        ("InvalidSubnetId.NotFound", ClassFault.WHOLE),
        ("TagPolicyViolation", ClassFault.WHOLE),
        ("PendingVerification", ClassFault.NONE),
        ("MaxTemplateLimitExceeded", ClassFault.NONE),
    ],
)
def test_aws049_a_template_is_refused_for_its_class_or_for_the_account(code: str, fault: ClassFault) -> None:
    assert class_fault(code, "", "CreateLaunchTemplate") is fault


def test_aws049_a_wrong_value_has_the_reason_that_its_message_gives() -> None:
    assert (
        reason_for("ClientInvalidParameterValue", "User data is limited to 16384 bytes") == "UserDataSizeLimitExceeded"
    )
