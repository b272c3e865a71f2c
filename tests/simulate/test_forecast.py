"""What consolidation would do next, as ``tenon simulate --disruption`` and ``tenon explain node`` say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulate.running import Answer
from tests.simulate.shared_cluster import HOLD, PATIENT, SHARED, TWO, node, pod
from tests.simulate.test_disruption import claimed, disrupted

UNTIL_ONE = SHARED.replace("consolidateAfter: 10m", "consolidateAfter: 13h")
"""The nodes are twelve hours old."""
CLOSED = PATIENT.replace("{nodes: 100%}", '{nodes: 100%}, {nodes: "0", schedule: "0 10 * * *", duration: 4h}')
WINDOW = '[{"schedule": "30 14 * * *", "duration": "1h", "reasons": ["Underutilized"]}]'
WINDOWED = f"{{name: default, annotations: {{tenon.sh/disruption-windows: '{WINDOW}'}}}}"


def forecast(folder: Path, text: str) -> list[dict[str, object]]:
    plan = disrupted(folder, text).plan
    assert plan["disruption"] == []
    return [{**look, "commands": [entry["candidates"] for entry in look["commands"]]} for look in plan["forecast"]]


@pytest.mark.parametrize(
    ("text", "at", "seconds"),
    [
        (UNTIL_ONE, "2026-01-01T13:00:00Z", 3600),
        (SHARED.replace(PATIENT, CLOSED), "2026-01-01T14:00:00Z", 7200),
        (SHARED.replace("{name: default}", WINDOWED, 1), "2026-01-01T14:30:00Z", 9000),
    ],
    ids=["consolidateAfter", "budget", "window"],
)
def test_the_next_consolidation_has_a_time_and_the_commands_of_then(
    tmp_path: Path, text: str, at: str, seconds: int
) -> None:
    assert forecast(tmp_path, text) == [{"at": at, "inSeconds": seconds, "commands": [["n1"]]}]


def sentences(answer: Answer) -> str:
    assert answer.status == 0, answer.err
    return " ".join(answer.out.split())


@pytest.mark.parametrize("options", [[], ["--node", "n1"]], ids=["all", "node"])
def test_the_table_says_when_consolidation_comes_and_what_it_does_then(tmp_path: Path, options: list[str]) -> None:
    text = sentences(disrupted(tmp_path, UNTIL_ONE, *options, form="table"))
    assert (
        "Next consolidation: 2026-01-01 13:00:00 UTC (in 1h), if nothing changes until then: Underutilized: n1 would "
        "be removed, which saves $0.1920 an hour" in text
    )


def test_a_node_that_stays_hears_which_others_the_next_consolidation_removes(tmp_path: Path) -> None:
    text = sentences(disrupted(tmp_path, UNTIL_ONE, "--node", "n2", form="table"))
    assert "(in 1h), if nothing changes until then: n2 stays; n1 would be removed" in text


def test_consolidation_that_comes_now_or_never_by_itself_has_no_time(tmp_path: Path) -> None:
    now = disrupted(tmp_path, SHARED)
    assert [entry["candidates"] for entry in now.plan["disruption"]] == [["n1"]]
    assert now.plan["forecast"] == []
    assert "Next consolidation" not in sentences(disrupted(tmp_path, SHARED, form="table"))
    protected = TWO + pod("a", "n1", **HOLD) + pod("b", "n2", **HOLD)
    text = sentences(disrupted(tmp_path, protected, form="table"))
    assert "Next consolidation: none, unless something changes. Nothing that keeps the nodes ends by itself." in text


def test_a_node_that_stays_hears_which_others_consolidation_removes_now(tmp_path: Path) -> None:
    text = sentences(disrupted(tmp_path, SHARED, "--node", "n2", form="table"))
    assert text.endswith("Next consolidation: now n2 stays; n1 would be removed")
    assert disrupted(tmp_path, SHARED, "--node", "n2").plan["consolidatedElsewhere"] == ["n1"]
    assert "Next consolidation" not in sentences(disrupted(tmp_path, SHARED, "--node", "n1", form="table"))
    assert "consolidatedElsewhere" not in disrupted(tmp_path, SHARED).plan


def test_the_forecast_knows_when_a_request_to_keep_a_node_ends(tmp_path: Path) -> None:
    """`tenon node keep n1 --for 90m`. Until then the other node stays too, because a pod may not be moved."""
    cluster = PATIENT + claimed({"tenon.sh/keep-until": "2026-01-01T13:30:00Z"})
    cluster += node("n2", "m5.xlarge", "3900m") + pod("b", "n2", "300m", **HOLD)
    assert forecast(tmp_path, cluster) == [{"at": "2026-01-01T13:30:00Z", "inSeconds": 5400, "commands": [["n1"]]}]
    other = sentences(disrupted(tmp_path, cluster, "--node", "n2", form="table"))
    assert "if nothing changes until then: n2 stays; n1 would be removed" in other


def test_consolidation_that_would_save_nothing_then_says_so(tmp_path: Path) -> None:
    only = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}, "
    full = TWO.replace("consolidateAfter: 10m", "consolidateAfter: 13h").replace("requirements: [", only)
    full += pod("a", "n1", "3800m") + pod("b", "n2", "3800m")
    assert forecast(tmp_path, full) == [{"at": "2026-01-01T13:00:00Z", "inSeconds": 3600, "commands": []}]
    text = sentences(disrupted(tmp_path, full, form="table"))
    assert "by 2026-01-01 13:00:00 UTC (in 1h)" in text
