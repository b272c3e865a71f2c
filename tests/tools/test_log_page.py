"""The page of log lines misses no line and no field."""

from __future__ import annotations

import re

import pytest

from activities import log_fields
from tools.log_page import LogLineError, log_lines, log_page


def test_a_message_is_on_the_page_with_its_logger_level_and_fields() -> None:
    page = log_page()
    lifecycle = page.partition("\n## controller.nodeclaim.lifecycle\n")[2].partition("\n## ")[0]
    assert "| A NodeClaim initialized | INFO | `nodeclaim`, `node` |" in lifecycle
    assert "| A node was deleted | INFO | `nodeclaim`, `node`, `reason` |" in lifecycle


def test_each_level_of_a_line_is_named_as_one_of_the_field_level() -> None:
    levels = {level for line in log_lines() for level in line.level.split(" or ")}
    assert levels == set(re.findall(r"[A-Z]+", log_fields.FIXED["level"]))


def test_messages_and_fields_that_come_from_tables_and_functions_are_read_too() -> None:
    lines = {line.message: line for line in log_lines()}
    assert "reason-regex" in lines["The worker selected a repair policy"].fields
    assert "since" in lines["The sweep deleted a Node without NodeClaim and instance"].fields
    assert {"nodepool", "ec2nodeclass"} <= {*lines["The controller failed to reconcile and retries"].fields}


def test_a_field_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(log_fields.MEANINGS, "nodeclaim")
    with pytest.raises(LogLineError, match="nodeclaim"):
        log_page()


def test_a_meaning_that_no_line_uses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(log_fields.MEANINGS, "dream", "nothing")
    with pytest.raises(LogLineError, match="dream"):
        log_page()
