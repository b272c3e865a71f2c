"""Manifests with anything in any of their fields: findings or manifests of v1, never a traceback."""

from __future__ import annotations

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.convert.running import Answer, convert, validate
from tests.simulate.mutating import changed, places
from tests.simulate.older_manifests import OLD
from tests.simulate.random_manifests import EDITS, GOOD

ALL = [*OLD, *(document for document in GOOD if document["kind"] in ("NodePool", "NodeClaim", "Deployment", "List"))]
PLACES = [(number, path) for number, document in enumerate(ALL) for path in places(document)]
SOURCE = "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in ALL)


def judged(text: str) -> None:
    """Both commands answer, with lines that can be read."""
    checked = validate("-f", "-", "-o", "json", stdin=text)
    assert checked.status in (0, 2)
    assert checked.document["valid"] == (checked.status == 0)
    table = validate("-f", "-", stdin=text)
    assert table.status == checked.status
    _readable(table)
    converted = convert("-f", "-", stdin=text)
    assert converted.status in (0, 2)
    _readable(converted)
    assert (converted.status == 2) == bool(converted.err)
    again = convert("-f", "-", stdin=converted.out)
    assert (again.status, again.out) == (0, converted.out)
    listed = convert("-f", "-", "-o", "json", stdin=text)
    assert (listed.status, bool(listed.out)) in ((0, True), (2, True), (2, False)), "nothing only where all is faulty"
    items = listed.document["items"] if listed.out else []
    if converted.status == 0:
        assert all(item.get("apiVersion") != "karpenter.sh/v1alpha5" for item in items)


def _readable(answer: Answer) -> None:
    assert "Traceback" not in answer.err
    assert all(0 < len(line) < 1000 for line in answer.lines)


def test_the_documents_are_right_before_they_are_changed() -> None:
    assert validate("-f", "-", stdin=SOURCE).status == 0
    assert convert("-f", "-", stdin=SOURCE).status == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), EDITS), min_size=1, max_size=3))
def test_any_change_at_any_place(edits: list[tuple[tuple[int, tuple[object, ...]], tuple[int, object]]]) -> None:
    documents = changed(ALL, [(number, path, *edit) for (number, path), edit in edits])
    judged("\n---\n".join(json.dumps(document) for document in documents))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 8000), st.text(st.sampled_from("{}[]:-&*!|>'\"\n 1a,#"), max_size=6), st.integers(0, 8))
def test_a_file_with_bytes_changed(at: int, text: str, drop: int) -> None:
    at %= len(SOURCE)
    judged(SOURCE[:at] + text + SOURCE[at + drop :])
