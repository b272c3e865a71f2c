"""Every reason has one member, and its spellings are derived."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason, Traits, camel_case, snake_case
from tenon.messages.base import ErrorType
from tenon.messages.launch import LaunchResult


@pytest.mark.parametrize(
    ("reason", "value", "camel", "snake"),
    [
        (Reason.EMPTY, "Empty", "Empty", "empty"),
        (Reason.DRIFTED, "Drifted", "Drifted", "drifted"),
        (Reason.UNDERUTILIZED, "Underutilized", "Underutilized", "underutilized"),
        (Reason.EXPIRED, "expired", "Expired", "expired"),
        (Reason.INSUFFICIENT_CAPACITY, "insufficient_capacity", "InsufficientCapacity", "insufficient_capacity"),
        (Reason.NODECLASS_NOT_READY, "nodeclass_not_ready", "NodeClassNotReady", "nodeclass_not_ready"),
        (Reason.REGISTRATION_TIMEOUT, "registration_timeout", "RegistrationTimeout", "registration_timeout"),
    ],
)
def test_met08_met30_spellings_are_karpenters(reason: Reason, value: str, camel: str, snake: str) -> None:
    assert (reason.value, reason.camel_case, reason.snake_case) == (value, camel, snake)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_spelling_is_read_as_its_reason(reason: Reason) -> None:
    """The three spellings of recorded messages, error types and event names."""
    for text in (reason.value, reason.camel_case, reason.snake_case, reason.value.replace("_", "").lower()):
        assert Reason.of(text) is reason
        assert (camel_case(text), snake_case(text)) == (reason.camel_case, reason.snake_case)


def test_a_code_of_ec2_is_a_reason_as_it_is() -> None:
    assert Reason.of("Unauthorized") is None
    assert (camel_case("unauthorized_operation"), camel_case("VCPULimitExceeded")) == (
        "UnauthorizedOperation",
        "VCPULimitExceeded",
    )
    assert snake_case("LaunchTemplateNotFound") == "launchtemplatenotfound"
    assert camel_case("") == ""


@pytest.mark.parametrize("reason", list(Reason))
def test_np18_budgets_name_the_reasons_of_disruption(reason: Reason) -> None:
    """N15-001: and that of repair."""
    accepted = reason in (Reason.EMPTY, Reason.DRIFTED, Reason.UNDERUTILIZED, Reason.UNHEALTHY)
    assert reason.is_disruption is accepted
    with nullcontext() if accepted else pytest.raises(ValidationError):
        Budget(reasons=[reason.value])


def test_a_reason_without_all_its_traits_is_refused() -> None:
    """So that a new one cannot forget to say whether it respects what protects a node."""
    with pytest.raises(TypeError, match="moves_pods"):
        Traits(mode="graceful", budgeted="always", is_consolidation=False)  # type: ignore[call-arg]


def test_a_reason_without_traits_is_refused() -> None:
    """The enum calls this for each member when the module is imported."""
    create = Reason._new_member_  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="the reason polished has no traits"):
        create(Reason, "polished")


@pytest.mark.parametrize(
    ("reason", "mode"),
    [
        (Reason.EMPTY, "graceful"),
        (Reason.UNDERUTILIZED, "graceful"),
        (Reason.DRIFTED, "eventual"),
        (Reason.EXPIRED, "forceful"),
        (Reason.GARBAGE_COLLECTED, "forceful"),
    ],
)
def test_dis01_dis85_termination_modes(reason: Reason, mode: str) -> None:
    assert reason.traits.mode == mode


def test_only_people_drain_delete_and_cancel() -> None:
    assert {reason.value for reason in Reason if reason.is_by_hand} == {"deleted", "drain", "force_drain", "cancelled"}


def test_messages_hold_the_value_that_earlier_versions_wrote() -> None:
    document = json.loads(LaunchResult(reason=Reason.INSUFFICIENT_CAPACITY).model_dump_json())
    assert document["reason"] == "insufficient_capacity"
    assert str(ErrorType.INSUFFICIENT_CAPACITY) == "InsufficientCapacity"
