"""What Provisioners, AWSNodeTemplates and Machines say of themselves (LEG-12, LEG-41)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis.legacy.kinds.v1alpha1 import AWSNodeTemplate
from tenon.apis.legacy.kinds.v1alpha5 import Machine, Provisioner
from tenon.apis.legacy.old_status import (
    MAX_TEXT,
    NAME_TAKEN,
    Outcome,
    machine_status,
    provisioner_status,
    template_status,
)
from tests.tenon.apis.legacy.older_objects import provisioner, template

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"
IS = Outcome(became="NodePool old", notes=["first", "second"])


def condition(type_: str, status: str, message: str = "", reason: str = "x") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def pool(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"resources": {"cpu": "8", "nodes": "2"}, "conditions": list(conditions)}}


def said(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((condition for condition in status["conditions"] if condition["type"] == type_), {})


def test_leg12_an_active_provisioner_reports_resources_last_scaling_and_target() -> None:
    ready = pool(condition("Ready", "True"), condition("Overlapping", "True", "the same pods as NodePool b"))
    status = provisioner_status(provisioner(), IS, ready, ["2026-01-01T00:00:01Z", SINCE], NOW)
    assert (said(status, "Active")["status"], said(status, "Converted")["status"]) == ("True", "True")
    assert said(status, "Converted")["message"] == "it is NodePool old; first; second"
    assert said(status, "Overlapping")["message"] == "the same pods as NodePool b"
    assert status["resources"] == {"cpu": "8", "nodes": "2"}
    assert status["lastScaleTime"] == "2026-01-01T00:00:01Z"
    Provisioner.model_validate({**provisioner(), "status": status})


def test_an_unready_pool_says_why_on_its_provisioner() -> None:
    unready = pool(condition("NodeClassReady", "False", "subnets found none"), condition("Ready", "False", "no"))
    active = said(provisioner_status(provisioner(), IS, unready, (), NOW), "Active")
    assert (active["status"], active["message"]) == ("False", "subnets found none")
    unseen = said(provisioner_status(provisioner(), IS, None, (), NOW), "Active")
    assert unseen["status"] == "Unknown"


def test_a_provisioner_that_cannot_act_says_so_and_keeps_its_time_of_change() -> None:
    refused = Outcome(reason=NAME_TAKEN, problem="NodePool old is there")
    status = provisioner_status(provisioner(), refused, None, (), NOW)
    for type_ in ("Active", "Converted"):
        assert said(status, type_)["status"] == "False"
        assert said(status, type_)["message"] == "NodePool old is there"
    later = provisioner_status({**provisioner(), "status": status}, refused, None, (), NOW + timedelta(hours=1))
    assert later == status


def test_messages_are_bounded_and_conditions_of_old_controllers_do_no_harm() -> None:
    old = {**provisioner(), "status": {"conditions": [{"type": "Active", "status": "True"}], "lastScaleTime": SINCE}}
    status = provisioner_status(old, Outcome(became="it", notes=["n" * 100] * 100), None, (), NOW)
    assert len(said(status, "Converted")["message"]) <= MAX_TEXT
    assert [condition["type"] for condition in status["conditions"]].count("Active") == 1
    assert status["lastScaleTime"] == SINCE


def test_leg41_a_template_shows_what_its_class_found() -> None:
    result = {
        "status": {
            "subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "z1"}],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [{"id": "ami-1", "name": "x", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}],
            "conditions": [condition("Ready", "True")],
        }
    }
    status = template_status(template(), Outcome(became="EC2NodeClass mine"), result, NOW)
    assert status["subnets"] == [{"id": "subnet-1", "zone": "a"}]
    assert status["securityGroups"] == result["status"]["securityGroups"]
    assert status["amis"] == result["status"]["amis"]
    assert said(status, "Active")["status"] == "True"
    AWSNodeTemplate.model_validate({**template(), "status": status})


def test_leg21_a_machine_says_that_its_node_is_not_taken_over() -> None:
    body = {"metadata": {"name": "m", "generation": 1}, "spec": {}}
    names = {**body, "status": {"nodeName": "n", "providerID": "aws:///a/i-1"}}
    assert said(machine_status(body, NOW), "Active")["message"] == (
        "Tenon does not take over nodes of v1alpha5: drain its Node and end its instance; "
        "docs/migrate.md has the commands"
    )
    assert "drain Node n and end its instance aws:///a/i-1;" in said(machine_status(names, NOW), "Active")["message"]
    Machine.model_validate({**body, "status": machine_status(names, NOW)})
