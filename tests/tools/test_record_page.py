"""The page of the record's fields has all of them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest
from pydantic import BaseModel

from tenon.kube import pool_reasons
from tenon.messages.explanation import Explanation
from tenon.record import entries
from tools import reference_pages
from tools.reference_pages import record_kinds, record_page

OF_EVERY_ENTRY = ("id", "at", "cluster", "workflow", "run", "actor")
INSIDE: dict[str, type] = {
    "Inside: purchase": entries.RecordedPurchase,
    "Inside: explanation": Explanation,
    "Inside: reason": pool_reasons.NoPlace,
    "Inside: clause": pool_reasons.Clause,
    "Inside: obstacle": pool_reasons.Obstacle,
    "Inside: candidate": entries.CommandCandidate,
    "Inside: approval": entries.CommandApproval,
    "Inside: node": entries.RecordedNode,
    "Inside: wait": entries.BlockedBy,
    "Inside: row": entries.CostRow,
    "Inside: decided command": entries.DecidedCommand,
}


def rows_by_section() -> dict[str, dict[str, str]]:
    """By the heading of a section, the meaning of each field."""
    result: dict[str, dict[str, str]] = {}
    for part in record_page().split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| `", "| **`"))]
        result[heading] = {name.strip("*`"): meaning for name, _, meaning in cells}
    return result


def field_names(model: type) -> set[str]:
    if issubclass(model, BaseModel):
        return set(model.model_fields)
    assert is_dataclass(model)
    return {field.name for field in fields(model)}


def test_each_field_of_each_entry_is_there_with_its_meaning() -> None:
    sections = rows_by_section()
    expected = {heading: field_names(model) for heading, model in INSIDE.items()}
    expected["Every entry"] = set(OF_EVERY_ENTRY)
    for model in record_kinds():
        kind = model.model_fields["kind"].default
        expected[f"`{kind}`"] = set(model.model_fields) - set(OF_EVERY_ENTRY)
    assert {heading: set(rows) for heading, rows in sections.items()} == expected
    assert {f"`{kind}`" for kind in entries.EntryKind} < set(sections)
    assert all(meaning for rows in sections.values() for meaning in rows.values())


def test_a_field_without_a_docstring_is_refused() -> None:
    class Undocumented(entries.PlanEntry):
        silent: str = ""

    with pytest.raises(TypeError, match="the field silent of Undocumented has no docstring"):
        reference_pages._attribute_docstrings(Undocumented)
