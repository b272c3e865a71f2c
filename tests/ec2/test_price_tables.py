"""The tables of list prices: the built-in ones, the command that writes one, and files that are none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import activities.ec2
from activities.ec2.price_tables import MAX_SIZE, PriceTableError, built_in_table, read_table, table_text
from cli.fleet_view.node_prices import aws_prices, table_prices
from cli.prices import app
from sandbox.ec2.authorization.identities import environment, worker_key
from tests.command_line import invoke

BUILT_IN = Path(activities.ec2.__file__).parent / "data" / "prices"


@pytest.fixture(scope="module")
def few_types() -> None:
    """Every type is offered, and has its price."""


@pytest.fixture
def served(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sandbox's EC2, as a shell with credentials finds it."""
    for name, value in environment(worker_key("sandbox")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    return server


@pytest.mark.integration
def test_aws130_a_printed_table_has_the_prices_of_the_price_list(served: Any, tmp_path: Path) -> None:
    """And the worker reads it as it is."""
    printed = invoke(app, ["us-west-2"])
    assert printed.exit_code == 0
    file = tmp_path / "prices.json"
    file.write_text(printed.stdout)
    table = read_table(str(file), "us-west-2")
    assert table.on_demand == dict(built_in_table("us-west-2").on_demand)
    assert table.dedicated["m5.large"] == 0.10176
    assert not [name for name in table.dedicated if ".metal" in name], "bare metal has one price, in onDemand"
    assert not table.is_old(datetime.now(UTC).date())


@pytest.mark.integration
def test_the_region_of_the_environment_is_the_default(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert json.loads(invoke(app, []).stdout)["regions"] == ["us-west-2"]
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    refused = invoke(app, [])
    assert refused.exit_code == 2
    assert "set AWS_REGION" in refused.stderr


@pytest.mark.integration
def test_prices_that_cannot_be_read_print_no_table(served: Any) -> None:
    unknown = invoke(app, ["us-wset-2"])
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "AWS lists no prices in USD for us-wset-2: correct the region." in unknown.stderr
    misspelled = invoke(app, ["us_west_2"])
    assert (misspelled.exit_code, misspelled.stdout) == (2, "")
    assert "The list prices of us_west_2 cannot be read: " in misspelled.stderr
    served.world.judge.replace("sandbox", '{"Statement": []}')
    refused = invoke(app, ["us-west-2"])
    served.world.judge.replace("sandbox", None)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "The list prices of us-west-2 cannot be read" in refused.stderr
    assert "allow pricing:GetProducts" in refused.stderr


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"])
def test_aws130_the_built_in_tables_are_as_the_command_writes_them(region: str) -> None:
    """So that writing a table again changes only the lines whose prices changed."""
    text = (BUILT_IN / f"{region}.json").read_text()
    assert table_text(built_in_table(region)).splitlines()[2:] == text.splitlines()[2:]


def changed(**fields: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **fields})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[:-3], "is no table of list prices"),
        (lambda _: "[]", "is no table of list prices"),
        (lambda _: "[" * 100_000, "is no table of list prices"),
        (changed(asOf="yesterday"), "is no table of list prices"),
        (changed(regions=[]), "is no table of list prices"),
        (changed(onDemand={"m5": {"large": -0.1}}), "is no table of list prices"),
        (changed(onDemand={"m5": {"large": math.nan}}), "is no table of list prices"),
        (changed(onDemand={"m5": {"large": 10**400}}), "is no table of list prices"),
        (changed(onDemand={"m5": 0.1}), "is no table of list prices"),
        (changed(onDemand={}), "has no prices"),
        (changed(regions=["eu-west-1"]), "has the prices of eu-west-1, not of eu-central-1"),
        (changed(currency="EUR"), "are in EUR, not in USD"),
        (lambda text: text + " " * MAX_SIZE, "is larger than 1 MiB"),
    ],
)
def test_aws130_a_file_that_is_no_table_of_the_region_is_refused(
    tmp_path: Path, change: Callable[[str], str], sentence: str
) -> None:
    """Wrong prices would buy wrong nodes."""
    file = tmp_path / "prices.json"
    own = replace(built_in_table("us-east-1"), region="eu-central-1", regions=frozenset(["eu-central-1"]))
    file.write_text(table_text(own))
    assert read_table(str(file), "eu-central-1").on_demand == own.on_demand
    file.write_text(change(file.read_text()))
    with pytest.raises(PriceTableError) as refused:
        read_table(str(file), "eu-central-1")
    assert sentence in str(refused.value)
    assert "`tenon prices eu-central-1`" in str(refused.value)


def test_aws130_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PriceTableError, match=r"/none.json cannot be read \(No such file or directory\): write it"):
        read_table(f"{tmp_path}/none.json", "eu-central-1")


def test_commands_show_the_prices_of_a_table_if_the_region_is_misspelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRICE_TABLE", raising=False)
    assert aws_prices("us_west_2") == table_prices("us_west_2")
