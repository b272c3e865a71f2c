"""Rows of the passage from v1beta1 to v1 that no manifest shows: each is behaviour, or a step, and has its test.

The other rows have a pair each (`test_golden`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

SHOWN_BY = {
    "V1B-20": "tests/tenon/node/test_machine.py::test_v1b20_a_node_is_let_go_of_only_when_its_instance_is_gone",
    "V1B-21": "tests/worker/settings/test_setting_sources.py::test_v1b21_removed_settings_are_reported_and_ignored",
    "V1B-22": "tests/tenon/apis/versions/test_round_trips.py::test_v1_by_way_of_v1beta1_is_what_it_was",
    "V1B-23": "tests/convert/test_rows_without_a_field.py::test_v1b23_the_steps_delete_the_old_webhooks",
}
"""V1B-22: which release to go back to is Karpenter's affair; that objects can be read as v1beta1 again is Tenon's."""


@pytest.mark.parametrize("row", SHOWN_BY)
def test_each_row_has_its_test(row: str) -> None:
    file, _, name = SHOWN_BY[row].partition("::")
    assert f"def {name}(" in Path(file).read_text()


@pytest.mark.parametrize("heading", ["From v1beta1", "From v1alpha5"])
def test_v1b23_the_steps_delete_the_old_webhooks(heading: str) -> None:
    """One that is left behind refuses every NodePool, for nobody answers it any more."""
    text = Path("docs/migrate.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    steps = " ".join(line.removesuffix("\\") for line in text.splitlines() if line.startswith("    ")) + " "
    mutating, _, validating = steps.partition("delete --ignore-not-found validatingwebhookconfiguration")
    assert "mutatingwebhookconfiguration defaulting.webhook.karpenter.k8s.aws" in mutating
    for name in ("karpenter.sh", "config.karpenter.sh", "karpenter.k8s.aws"):
        assert f" validation.webhook.{name} " in validating
