"""Manifests with anything in any of their fields: a plan or sentences, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate.mutating import changed, places
from tests.simulate.random_manifests import EDITS, GOOD, RUNNING, judged
from tests.simulate.running import POOL, catalogue, deployment, node, simulate
from tests.tenon.scheduling.builders import ordinary_entries

PLACES = [(number, path) for number, document in enumerate(GOOD) for path in places(document)]
CATALOGUE = {"instanceTypes": ordinary_entries()[:3]}


def as_text(documents: list[dict[str, Any]]) -> str:
    return "\n---\n".join(json.dumps(document) for document in documents)


def test_the_documents_are_right_before_they_are_changed(tmp_path: Path) -> None:
    assert simulate(tmp_path, as_text(GOOD)).status == 0


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), EDITS), min_size=1, max_size=3))
def test_any_change_at_any_place(
    tmp_path: Path, edits: list[tuple[tuple[int, tuple[Any, ...]], tuple[int, Any]]]
) -> None:
    documents = changed(GOOD, [(number, path, *edit) for (number, path), edit in edits])
    judged(simulate(tmp_path, as_text(documents), "--disruption"))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(list(places(CATALOGUE))), EDITS), min_size=1, max_size=2))
def test_any_change_at_any_place_of_a_catalogue(
    tmp_path: Path, edits: list[tuple[tuple[Any, ...], tuple[int, Any]]]
) -> None:
    (document,) = changed([CATALOGUE], [(0, path, *edit) for path, edit in edits])
    file = tmp_path / "own.json"
    file.write_text(json.dumps(document))
    judged(simulate(tmp_path, POOL + deployment(replicas=3), "--catalog", str(file)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4000), st.text(st.sampled_from("{}[]:-&*!|>'\"\n 1a,"), max_size=6), st.integers(0, 8))
def test_a_file_with_bytes_changed(tmp_path: Path, at: int, text: str, drop: int) -> None:
    whole = POOL + "---" + RUNNING + node() + deployment()
    at %= len(whole)
    judged(simulate(tmp_path, whole[:at] + text + whole[at + drop :]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 4))
def test_a_catalogue_with_bytes_changed(tmp_path: Path, at: int, raw: bytes, drop: int) -> None:
    whole = catalogue(tmp_path).read_bytes()
    at %= len(whole)
    file = tmp_path / "own.json"
    file.write_bytes(whole[:at] + raw + whole[at + drop :])
    judged(simulate(tmp_path, POOL + deployment(replicas=3), "--catalog", str(file)))


MUCH = 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * MUCH,
        "{a: " * (MUCH // 4),
        '{"a":' * (MUCH // 5),
        "a" * MUCH + ": 1",
        "a: " + "9" * MUCH,
        "!" * MUCH,
        "\x00" * MUCH,
        "- &a x\n" + "- *a\n" * 250_000 + "#" * (MUCH - 1_250_000),
        POOL + deployment(cpu="1" * MUCH),
        POOL.replace("name: default}", "name: " + "d" * MUCH + "}"),
        '{"a": [' + "1," * (MUCH // 2) + "1]}",
    ],
    ids=["lists", "mappings", "objects", "key", "number", "tag", "nul", "aliases", "quantity", "name", "values"],
)
def test_ten_megabytes_of_malice_are_refused(tmp_path: Path, text: str) -> None:
    answer = simulate(tmp_path, text)
    judged(answer)
    assert answer.status == 2


@pytest.mark.parametrize("value", ["9223372036854775807", "8E", "7Ei", "1e18"])
def test_requests_beyond_all_machines_are_unschedulable_and_no_overflow(tmp_path: Path, value: str) -> None:
    text = POOL + deployment("a", 40, cpu=value, memory=value) + deployment("b", 2)
    answer = simulate(tmp_path, text)
    assert answer.status in (0, 2)
    if answer.status == 0:
        assert answer.plan["totals"]["unschedulable"] == 40
