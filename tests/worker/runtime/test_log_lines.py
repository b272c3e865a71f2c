"""A line of a workflow has its message alone, and names the workflow in a field."""

from __future__ import annotations

import json
import logging

from temporalio import activity, workflow

from worker.runtime.telemetry.log_lines import TenonFormatter
from worker.runtime.telemetry.logs import without_details


def test_a_workflows_line_has_no_dictionary_in_its_message() -> None:
    before = workflow.logger.workflow_info_on_message, activity.logger.activity_info_on_message
    try:
        without_details()
        assert not workflow.logger.workflow_info_on_message
        assert not activity.logger.activity_info_on_message
    finally:
        workflow.logger.workflow_info_on_message, activity.logger.activity_info_on_message = before
    details = {"attempt": 1, "run_id": "r", "workflow_id": "nodeclaim/cluster/default-1"}
    record = logging.LogRecord("node", logging.INFO, "f", 1, "The node changed its stage", None, None)
    record.temporal_workflow = details
    line = json.loads(TenonFormatter("io").format(record))
    assert (line["message"], line["workflow"]) == ("The node changed its stage", "nodeclaim/cluster/default-1")
    assert "temporal_workflow" not in line
