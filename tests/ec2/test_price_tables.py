"""The script that writes a built-in table of list prices, and how a table is read."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from activities.ec2.price_tables import built_in_table
from cli import price_table


def test_aws130_a_written_table_has_the_prices_of_the_price_list(
    clients: object, server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandbox.ec2.authorization.identities import environment, worker_key
    from sandbox.ec2.server import Server

    assert isinstance(server, Server)
    for name, value in environment(worker_key("sandbox")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    price_table.main("us-west-2", tmp_path)
    written = json.loads((tmp_path / "us-west-2.json").read_text())
    assert written["regions"] == ["us-west-2"]
    assert written["currency"] == "USD"
    assert written["onDemand"]["m5"]["large"] == 0.096
    names = {f"{family}.{size}" for family, sizes in written["onDemand"].items() for size in sizes}
    assert names == set(built_in_table("us-west-2").on_demand)


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"])
def test_aws130_the_tables_are_as_the_script_writes_them(region: str) -> None:
    """So that writing a table again changes only the lines whose prices changed."""
    text = (price_table.TABLES / f"{region}.json").read_text()
    table, written = built_in_table(region), json.loads(text)
    again = price_table.text_of(
        region, table.on_demand, written["regions"], table.currency, date.fromisoformat(table.as_of)
    )
    assert again.splitlines()[2:] == text.splitlines()[2:]
