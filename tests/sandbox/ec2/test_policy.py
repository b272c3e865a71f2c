"""The evaluator of IAM policies, against the examples of AWS's IAM and EC2 documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox.ec2.authorization.policy import Decision, Policy, PolicyError, Request, arn_like, context, tags_context

INSTANCE = "arn:aws:ec2:us-east-1:111122223333:instance/i-1"


def policy(*statements: dict[str, Any]) -> Policy:
    return Policy.parse(json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))


def decide(of: Policy, action: str, resource: str = INSTANCE, **keys: Any) -> Decision:
    return of.decide(Request(action, resource, context({name.replace("__", ":"): keys[name] for name in keys})))


def holds(condition: dict[str, Any], **keys: Any) -> bool:
    """Whether a statement with this condition applies to a request with these keys."""
    item = policy({"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition})
    return decide(item, "ec2:RunInstances", **keys) is Decision.ALLOWED


def test_all_is_denied_until_a_statement_allows_it_and_an_explicit_deny_wins() -> None:
    """IAM User Guide, "Policy evaluation logic" (reference_policies_evaluation-logic)."""
    pair = policy(
        {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "ec2:TerminateInstances", "Resource": "*"},
    )
    assert decide(pair, "ec2:RunInstances") is Decision.ALLOWED
    assert decide(pair, "ec2:TerminateInstances") is Decision.EXPLICITLY_DENIED
    assert decide(pair, "s3:GetObject") is Decision.IMPLICITLY_DENIED


def test_action_names_ignore_case_and_take_wildcards() -> None:
    """IAM User Guide, "IAM JSON policy elements: Action": iam:ListAccessKeys is the same as IAM:listaccesskeys."""
    item = policy({"Effect": "Allow", "Action": ["iam:*AccessKey*", "EC2:startinstances"], "Resource": "*"})
    assert decide(item, "iam:CreateAccessKey") is Decision.ALLOWED
    assert decide(item, "ec2:StartInstances") is Decision.ALLOWED
    assert decide(item, "iam:CreateUser") is Decision.IMPLICITLY_DENIED


def test_everything_but_an_action_or_a_resource() -> None:
    """IAM User Guide, "IAM JSON policy elements: NotAction" and "NotResource"."""
    item = policy({"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::secret/*"})
    assert decide(item, "ec2:RunInstances") is Decision.ALLOWED
    assert decide(item, "iam:CreateUser") is Decision.IMPLICITLY_DENIED
    assert decide(item, "s3:GetObject", "arn:aws:s3:::secret/a") is Decision.IMPLICITLY_DENIED


@pytest.mark.parametrize(
    ("resource", "pattern", "same"),
    [
        ("arn:aws:iam::123456789012:user/Development/product_1234/Bob", "arn:aws:iam::123456789012:user/Dev*", True),
        ("arn:aws:ec2:us-west-2::image/ami-1", "arn:aws:ec2:us-west-2::image/*", True),
        ("arn:aws:ec2:us-west-2:1:image/ami-1", "arn:aws:ec2:us-west-2::image/*", False),
        ("arn:aws:ec2:us-west-2:1:instance/i-1", "arn:aws:ec2:*:instance/*", False),
        ("arn:aws:ec2:us-west-2:1:instance/i-1", "arn:aws:ec2:us-west-?:1:instance/*", True),
        ("arn:aws:ec2:us-west-2:1:Instance/i-1", "arn:aws:ec2:us-west-2:1:instance/*", False),
        ("*", "*", True),
        ("*", "arn:aws:ec2:us-west-2:1:instance/*", False),
    ],
)
def test_resources_match_field_by_field(resource: str, pattern: str, same: bool) -> None:
    """IAM User Guide, "IAM JSON policy elements: Resource": wildcards within a field, and ARNs with letter case."""
    assert arn_like(resource, pattern) is same


def test_several_conditions_must_all_hold_and_one_of_several_values() -> None:
    """IAM User Guide, "Conditions with multiple context keys or values"."""
    pair = {
        "StringEquals": {"aws:PrincipalTag/department": ["finance", "hr"], "aws:PrincipalTag/role": "audit"},
    }
    tags = {"aws:PrincipalTag/department": "hr", "aws:PrincipalTag/role": "audit"}
    assert holds(pair, **tags)
    assert not holds(pair, **{**tags, "aws:PrincipalTag/role": "other"})
    assert not holds(pair, **{"aws:PrincipalTag/role": "audit"})


def test_a_negated_operator_means_none_of_the_values() -> None:
    """IAM User Guide, "Evaluation logic for negated matching condition operators"."""
    neither = {"StringNotEquals": {"aws:PrincipalTag/role": ["audit", "admin"]}}
    assert holds(neither, **{"aws:PrincipalTag/role": "developer"})
    assert not holds(neither, **{"aws:PrincipalTag/role": "audit"})


def test_a_missing_key_fails_a_condition_unless_it_is_negated_or_optional() -> None:
    """IAM User Guide, "Condition operators", the box "Important" and "...IfExists"."""
    assert not holds({"StringLike": {"aws:ResourceTag/team": "*"}})
    assert holds({"StringNotLike": {"aws:ResourceTag/team": "red*"}})
    assert holds({"StringLikeIfExists": {"ec2:InstanceType": ["t1.*", "t2.*", "m3.*"]}})
    assert not holds({"StringLikeIfExists": {"ec2:InstanceType": ["t1.*"]}}, ec2__InstanceType="m5.large")


def test_null_asks_whether_a_key_is_there() -> None:
    """IAM User Guide, "Condition operator to check existence of condition keys"."""
    assert holds({"Null": {"aws:TokenIssueTime": "true"}})
    assert holds({"Null": {"aws:TagKeys": "false"}}, aws__TagKeys=["a"])
    assert not holds({"Null": {"aws:TagKeys": "false"}})


def test_for_all_values_holds_for_none_and_for_any_value_needs_one() -> None:
    """IAM User Guide, "Set operators for multivalued context keys": the requests with PostDate, UserName and others."""
    every = {"ForAllValues:StringEquals": {"dynamodb:Attributes": ["ID", "Message", "Tags"]}}
    assert holds(every, dynamodb__Attributes=["ID", "Message"])
    assert not holds(every, dynamodb__Attributes=["ID", "UserName"])
    assert holds(every)
    subset = {"ForAnyValue:StringEquals": {"aws:TagKeys": ["environment", "webserver"]}}
    assert holds(subset, aws__TagKeys=["environment", "other"])
    assert not holds(subset, aws__TagKeys=["other"])
    assert not holds(subset)


def test_key_names_ignore_case_and_values_do_not() -> None:
    """IAM User Guide, "IAM JSON policy elements: Condition": AWS:SourceIp is the same key; John is not john."""
    assert holds({"StringEquals": {"AWS:UserName": "john"}}, aws__username="john")
    assert not holds({"StringEquals": {"aws:username": "john"}}, aws__username="John")
    assert holds({"StringEqualsIgnoreCase": {"aws:username": "john"}}, aws__username="John")


def test_tags_may_be_written_only_by_the_call_that_creates_the_resource() -> None:
    """EC2 User Guide, "Grant permission to tag Amazon EC2 resources during creation"."""
    item = policy(
        {"Effect": "Allow", "Action": ["ec2:RunInstances"], "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": ["ec2:CreateTags"],
            "Resource": "arn:aws:ec2:us-east-1:111122223333:*/*",
            "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
        },
    )
    assert decide(item, "ec2:CreateTags", ec2__CreateAction="RunInstances") is Decision.ALLOWED
    assert decide(item, "ec2:CreateTags", ec2__CreateAction="CreateVolume") is Decision.IMPLICITLY_DENIED
    assert decide(item, "ec2:CreateTags") is Decision.IMPLICITLY_DENIED


def test_an_instance_with_a_tag_is_denied() -> None:
    """EC2 User Guide, "Control access to EC2 resources using resource tags": not those of production."""
    item = policy(
        {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*"},
        {
            "Effect": "Deny",
            "Action": "ec2:TerminateInstances",
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:ResourceTag/environment": "production"}},
        },
    )
    for value, decision in (("production", Decision.EXPLICITLY_DENIED), ("test", Decision.ALLOWED)):
        keys = tags_context("aws:ResourceTag", {"environment": value})
        assert item.decide(Request("ec2:TerminateInstances", INSTANCE, keys)) is decision


def test_a_role_may_be_passed_to_one_service() -> None:
    """IAM User Guide, "Grant a user permissions to pass a role to an AWS service"."""
    role = "arn:aws:iam::111122223333:role/EC2-roles-for-XYZ-nodes"
    item = policy(
        {
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": "arn:aws:iam::111122223333:role/EC2-roles-for-XYZ-*",
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        }
    )
    assert decide(item, "iam:PassRole", role, iam__PassedToService="ec2.amazonaws.com") is Decision.ALLOWED
    assert decide(item, "iam:PassRole", role, iam__PassedToService="eks.amazonaws.com") is Decision.IMPLICITLY_DENIED


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}},
        {"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"},
        {"Effect": "Maybe", "Action": "*", "Resource": "*"},
        {"Effect": "Allow", "Action": "*"},
        {"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::home/${aws:username}"},
    ],
)
def test_what_it_does_not_know_is_refused(statement: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        policy(statement)
