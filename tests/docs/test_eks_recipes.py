"""The recipes of docs/eks.md that no sandbox runs: the values for Temporal's chart, and the commands of the page.

Temporal's chart is not part of this repository, so nothing renders it here. The required fields below are those that
chart 1.6 and its server need: without one of them a pod of Temporal does not start.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.documents import DOCUMENTS, ROOT, name_of, text_of
from tests.docs.recipes import written_files

PAGE = ROOT / "docs" / "eks.md"
SQL_STORE = {
    "type": "object",
    "required": ["sql"],
    "properties": {
        "sql": {
            "type": "object",
            "required": [
                "pluginName",
                "databaseName",
                "connectAddr",
                "connectProtocol",
                "user",
                "existingSecret",
                "secretKey",
                "tls",
            ],
            "properties": {
                "pluginName": {"enum": ["postgres12", "postgres12_pgx"]},
                "connectAddr": {"pattern": r"^[^:]+:\d+$"},
                "connectProtocol": {"const": "tcp"},
                "password": False,
                "tls": {
                    "type": "object",
                    "required": ["enabled", "enableHostVerification"],
                    "properties": {"enabled": {"const": True}},
                },
            },
        }
    },
}
"""Without ``enableHostVerification`` the schema job verifies the host with CAs that the one of RDS is not among."""
PERSISTENCE = {
    "type": "object",
    "required": ["defaultStore", "visibilityStore", "numHistoryShards", "datastores"],
    "properties": {
        "datastores": {
            "type": "object",
            "required": ["default", "visibility"],
            "additionalProperties": SQL_STORE,
        }
    },
}


@pytest.fixture(scope="module")
def temporal_values() -> dict[str, Any]:
    (values,) = written_files(PAGE, "temporal-values.yaml")
    assert isinstance(values, dict)
    return values


def test_the_stores_of_temporal_have_what_its_server_and_schema_job_require(temporal_values: dict[str, Any]) -> None:
    import jsonschema  # type: ignore[import-untyped]  # takes four seconds, in each process that collects this file

    persistence = temporal_values["server"]["config"]["persistence"]
    jsonschema.validate(persistence, PERSISTENCE)
    stores = persistence["datastores"]
    assert {persistence["defaultStore"], persistence["visibilityStore"]} == stores.keys()
    assert len({store["sql"]["databaseName"] for store in stores.values()}) == 2


def test_the_secret_of_the_database_is_the_one_that_the_page_creates(temporal_values: dict[str, Any]) -> None:
    for store in temporal_values["server"]["config"]["persistence"]["datastores"].values():
        name, key = store["sql"]["existingSecret"], store["sql"]["secretKey"]
        command = f"kubectl -n temporal create secret generic {name} --from-literal={key}="
        assert command in PAGE.read_text()


def test_temporal_stays_off_the_nodes_that_tenon_may_remove(temporal_values: dict[str, Any]) -> None:
    """With the affinity of Tenon's own pods. Otherwise Tenon may drain the Temporal that it runs on."""
    own = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())["affinity"]["nodeAffinity"]
    for part in ("server", "web", "admintools"):
        assert temporal_values[part]["affinity"] == {"nodeAffinity": own}


def test_the_version_of_temporals_chart_is_pinned_to_patches() -> None:
    (version,) = re.findall(r"--repo https://go\.temporal\.io/helm-charts --version '([^']+)'", PAGE.read_text())
    assert re.fullmatch(r"~\d+\.\d+\.\d+", version)


def test_no_command_relies_on_a_shell_that_splits_the_words_of_a_variable() -> None:
    """zsh, the shell of macOS, passes an unquoted variable as one argument."""
    unquoted = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        for line in re.sub(r"<<EOF\n.*?^EOF$", "", block, flags=re.MULTILINE | re.DOTALL).splitlines()
        if re.search(r"(?<![\"=\w/.-])\$[A-Z_]+(?=\s|$)", re.sub(r'"[^"]*"', "", line))
    ]
    assert unquoted == []


def test_no_command_names_the_partition_of_ordinary_regions() -> None:
    """In GovCloud and China, AWS refuses such an ARN."""
    assert "arn:aws:" not in PAGE.read_text()


def test_irsa_takes_the_role_from_an_output_of_the_stack() -> None:
    (output,) = re.findall(r"OutputKey=='(\w+)'", PAGE.read_text())
    outputs = re.findall(r"^  (\w+):$", (ROOT / "deploy" / "aws" / "cloudformation.yaml").read_text(), re.MULTILINE)
    assert output in outputs
    (name,) = re.findall(r"`module\.tenon\.(\w+)`", PAGE.read_text())
    assert f'output "{name}"' in (ROOT / "deploy" / "aws" / "terraform" / "outputs.tf").read_text()


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if "arn:aws:" in text_of(path)], ids=name_of)
def test_an_arn_of_ordinary_regions_comes_with_the_other_partitions(document: Path) -> None:
    sentence = "In GovCloud and China, write `aws-us-gov` or `aws-cn` in place of `aws` in `arn:aws:`."
    assert sentence in " ".join(text_of(document).split())


def test_an_instance_profile_made_by_hand_is_removed_before_the_stack_that_has_its_role() -> None:
    """IAM deletes no role that is in an instance profile."""
    text = PAGE.read_text().replace("\\\n", "")
    profiles = re.findall(r"aws iam create-instance-profile --instance-profile-name (\S+)", text)
    assert profiles
    before_the_stack = text[: text.index("aws cloudformation delete-stack")]
    for command in ("remove-role-from-instance-profile", "delete-instance-profile"):
        assert re.findall(rf"aws iam {command} --instance-profile-name (\S+)", before_the_stack) == profiles
