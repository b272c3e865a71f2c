"""What Temporal's dialogs say about each message that a person can send to a workflow."""

from __future__ import annotations

import inspect
import re

import pytest
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from tenon.node import operator_help
from workflows.disruption import DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.garbage_collection import GarbageCollectionWorkflow
from workflows.node_schedule import NodeScheduleWorkflow
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.nodeclass import NodeClassWorkflow
from workflows.provisioner import ProvisionerWorkflow
from workflows.rollout import RolloutWorkflow
from workflows.teardown import TeardownWorkflow

WORKFLOWS = (
    NodeClaimWorkflow,
    NodeClassWorkflow,
    ProvisionerWorkflow,
    DisruptionWorkflow,
    DisruptionCommandWorkflow,
    GarbageCollectionWorkflow,
    NodeScheduleWorkflow,
    RolloutWorkflow,
    TeardownWorkflow,
)
WRONG_INPUTS: tuple[list[object], ...] = (
    [],
    [None],
    [{}, {}],
    ["ann"],
    [{"until": 3}],
    [{"by": " ", "pool": "web"}],
)


@pytest.mark.parametrize("kind", WORKFLOWS, ids=lambda kind: kind.__name__)
def test_every_signal_update_and_query_says_what_it_does(kind: type) -> None:
    definition = workflow._Definition.must_from_class(kind)
    descriptions = [
        *((name, signal.description) for name, signal in definition.signals.items()),
        *((name, update.description) for name, update in definition.updates.items()),
        *((name, query.description) for name, query in definition.queries.items()),
    ]
    assert [name for name, description in descriptions if not description] == []


WITHOUT_INPUT = {"forecast"}
"""Updates that ignore what is sent with them, so that nothing can be wrong with it."""


@pytest.mark.parametrize("kind", WORKFLOWS, ids=lambda kind: kind.__name__)
def test_every_update_checks_its_input_before_it_is_accepted(kind: type) -> None:
    """Otherwise the workflow stands still when an update comes without its input: its task fails again and again."""
    workflow_object = object()
    for name, update in workflow._Definition.must_from_class(kind).updates.items():
        if name in WITHOUT_INPUT:
            for inputs in WRONG_INPUTS:
                inspect.signature(update.fn).bind(workflow_object, *inputs)
            continue
        assert update.validator is not None, name
        for inputs in WRONG_INPUTS:
            with pytest.raises(ApplicationError) as refusal:
                update.validator(workflow_object, *inputs)
            assert re.search(r"[Ff]or example:? \{|sends it\.", str(refusal.value)), refusal.value
            assert "pydantic" not in str(refusal.value)


def test_what_an_operator_may_send_has_its_effect_and_an_example_of_its_input() -> None:
    """The most destructive one does not look like the others."""
    definition = workflow._Definition.must_from_class(NodeClaimWorkflow)
    for name, effect in operator_help.REQUESTS.items():
        for description in (definition.signals[name].description, definition.updates[name].description):
            assert description is not None
            assert description.startswith(effect)
            assert '"by": "ann"' in description
    assert operator_help.REQUESTS["force_drain"].startswith("DANGER")
