"""`tenon doctor` where nothing that a worker needs is there, and the exit status of `--before-migrating`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.doctor import app


def test_without_a_cluster_doctor_says_what_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    nothing = {"KUBECONFIG": str(missing), "TEMPORAL_ADDRESS": "127.0.0.1:9", "CLUSTER_NAME": ""}
    nothing["TENON_SANDBOX_DIR"] = str(tmp_path)
    answer = CliRunner().invoke(app, ["-o", "json"], env=nothing)
    assert answer.exit_code == 1, answer.output
    document = {load["check"]: load for load in json.loads(answer.stdout)}
    assert {check: load["state"] for check, load in document.items()} == dict.fromkeys(
        ("API server", "settings", "Temporal"), "fault"
    )
    assert str(missing) in document["API server"]["sentence"]
    assert "CLUSTER_NAME" in document["settings"]["sentence"]


def test_a_misspelled_region_is_a_finding(tmp_path: Path) -> None:
    nothing = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "TEMPORAL_ADDRESS": "127.0.0.1:9", "CLUSTER_NAME": "prod"}
    answer = CliRunner().invoke(app, ["-o", "json"], env={**nothing, "AWS_REGION": "us_west_2"})
    assert answer.exit_code == 1, answer.output
    (finding,) = [finding for finding in json.loads(answer.stdout) if finding["check"] == "AWS"]
    assert finding["state"] == "fault"
    assert "us_west_2" in finding["sentence"]
    assert finding["remedy"] == "correct AWS_REGION"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "The Kubernetes client cannot be configured: "),
        (("--nonsense",), "Unknown flag --nonsense: --help lists all."),
    ],
)
def test_a_migration_that_cannot_be_examined_is_no_fault_of_the_cluster(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    """Scripts take 1 for a fault of the cluster, and 2 for a check that could not be done."""
    nothing = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "TENON_SANDBOX_DIR": str(tmp_path), "CLUSTER_NAME": ""}
    answer = CliRunner().invoke(app, ["--before-migrating", *arguments], env=nothing)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert not arguments or "Kubernetes" not in answer.stderr, "it is refused before the cluster is asked"
