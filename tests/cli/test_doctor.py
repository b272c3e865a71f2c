"""`tenon doctor` where nothing that a worker needs is there."""

from __future__ import annotations

import json
from pathlib import Path

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
