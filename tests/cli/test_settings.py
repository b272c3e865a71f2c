"""`tenon settings` and the flags of `tenon worker`, as an operator uses them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.setting_flags import split
from tenon.provisioning.gates import AWS_GATES, GATES
from worker.settings import Settings

runner = CliRunner()


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster and no setting of the machine that runs the tests."""
    for name in [*os.environ]:
        if name.lower() in Settings.model_fields or name.startswith(("KUBE", "KARPENTER", "TENON_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")


def shown(*arguments: str) -> dict[str, Any]:
    result = runner.invoke(app, ["settings", "-o", "json", *arguments])
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_every_setting_is_shown_with_its_value_and_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """SET-01 to SET-30."""
    monkeypatch.setenv("CLUSTER_NAME", "prod")
    document = shown("--batch-max-duration", "30s", "--isolated-vpc", "--disable-leader-election=false")
    rows = {row["name"]: row for row in document["settings"]}
    assert rows.keys() == {name.upper() for name in Settings.model_fields}
    assert (rows["CLUSTER_NAME"]["value"], rows["CLUSTER_NAME"]["source"]) == ("prod", "environment")
    assert (rows["BATCH_MAX_DURATION"]["value"], rows["BATCH_MAX_DURATION"]["source"]) == ("30s", "flag")
    assert (rows["ISOLATED_VPC"]["value"], rows["ISOLATED_VPC"]["source"]) == ("true", "flag")
    assert (rows["DISABLE_LEADER_ELECTION"]["value"], rows["DISABLE_LEADER_ELECTION"]["source"]) == ("false", "flag")
    assert (rows["BATCH_IDLE_DURATION"]["value"], rows["BATCH_IDLE_DURATION"]["source"]) == ("1s", "default")
    assert all(row["meaning"] for row in document["settings"])
    assert "always left out" in rows["IGNORE_DRA_REQUESTS"]["withoutEffect"]
    assert not rows["INTERRUPTION_QUEUE"].get("withoutEffect")


def test_leg52_the_tags_of_old_node_templates_are_shown_as_they_are_written() -> None:
    document = shown("--cluster-name", "c", "--default-tags", '{"team": "[a]"}')
    (row,) = [row for row in document["settings"] if row["name"] == "DEFAULT_TAGS"]
    assert (row["value"], row["source"]) == ('{"team": "[a]"}', "flag")
    table = runner.invoke(app, ["settings", "--cluster-name", "c", "--default-tags", '{"team": "[a]"}'])
    assert '{"team": "[a]"}' in table.stdout


def test_every_gate_is_shown() -> None:
    """GAT-01 to GAT-07."""
    document = shown("--cluster-name", "c", "--feature-gates", "StaticCapacity=true")
    gates = {row["name"]: row["on"] for row in document["featureGates"]}
    assert gates.keys() == GATES.keys() | AWS_GATES.keys()
    assert {name for name, on in gates.items() if on} == {"ReservedCapacity", "StaticCapacity"}
    sources = {row["name"]: row["source"] for row in document["featureGates"]}
    assert {name for name, source in sources.items() if source != "default"} == {"StaticCapacity"}
    assert sources["StaticCapacity"] == "flag"


def test_without_a_cluster_the_old_config_maps_are_said_to_be_unread() -> None:
    """LEG-50: and everything else is shown."""
    assert "no cluster is configured" in shown("--cluster-name", "c")["configMaps"]["unread"]


def test_a_table_for_people_has_no_colour_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    result = runner.invoke(app, ["settings", "--cluster-name", "c", "--ignore-dra-requests=false"])
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "CLUSTER_NAME" in result.stdout
    assert "SpotToSpotConsolidation" in result.stdout
    assert "IGNORE_DRA_REQUESTS=false has no effect in this version: " in result.stdout


def test_without_a_name_of_the_cluster_the_rest_is_shown_and_the_status_is_2() -> None:
    result = runner.invoke(app, ["settings"])
    assert result.exit_code == 2
    assert "BATCH_MAX_DURATION" in result.stdout
    assert result.stderr.splitlines() == ["CLUSTER_NAME is required: set it in the environment or with --cluster-name."]


@pytest.mark.parametrize("command", ["settings", "worker"])
def test_every_unusable_setting_is_reported_at_once_in_one_sentence_each(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_LEVEL", "loud")
    monkeypatch.setenv("BATCH_MAX_DURATON", "3s")
    arguments = ["--cluster-name", "c", "--metrics-prt", "1", "--aims=x", "stray", "--reserved-enis=-1", "--log-level"]
    result = runner.invoke(app, [command, *arguments])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Unknown flag --metrics-prt",
        "Unknown flag --aims",
        "'stray' is not a flag",
        "The flag --log-level needs a value",
        "Unknown setting BATCH_MAX_DURATON",
        "RESERVED_ENIS='-1' cannot be used",
        "LOG_LEVEL='loud' cannot be used",
    ]
    assert lines[0].endswith("did you mean --metrics-port?")


def test_switches_stand_alone_as_karpenter_has_them() -> None:
    value, faults = split(
        ["--isolated-vpc", "--metrics-port", "1", "--enable-profiling=false", "-o", "json"], {"-o": False}
    )
    assert value == ["--isolated-vpc=true", "--metrics-port=1", "--enable-profiling=false", "-o", "json"]
    assert faults == []
    assert split(["-ojson"], {"-o": False}) == (["-ojson"], [])


def test_every_setting_has_a_flag_with_help() -> None:
    result = runner.invoke(app, ["worker", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    missing = [name for name in Settings.model_fields if f"--{name.replace('_', '-')}" not in result.stdout]
    assert missing == []
