"""One key and one instant for each object, whatever decodes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.kube.decode import decode_namespaced, decode_node, decode_object
from tenon.kube.limit_ranges import decode_limit_range
from tenon.kube.pod_decode import decode_daemonset, decode_pod
from tenon.kube.pod_disruption_budgets import decode_pdb
from tenon.kube.selector_decode import decode_service
from tenon.kube.storage_decode import decode_class, decode_pvc, decode_volume
from tenon.kube.timestamps import epoch_seconds, from_epoch, parse_instant


@pytest.mark.parametrize(
    "decode",
    [decode_pod, decode_daemonset, decode_namespaced, decode_pdb, decode_service, decode_limit_range, decode_pvc],
)
@pytest.mark.parametrize(("metadata", "key"), [({}, "default/x"), ({"namespace": "shop"}, "shop/x")])
def test_an_object_of_a_kind_with_namespaces_is_in_one(decode: Any, metadata: dict[str, str], key: str) -> None:
    """A manifest without a namespace means ``default``, for every kind."""
    assert decode(json.dumps({"metadata": {"name": "x", **metadata}, "spec": {}}).encode()).key == key


@pytest.mark.parametrize("decode", [decode_node, decode_object, decode_volume, decode_class])
def test_an_object_of_the_cluster_has_its_name_as_key(decode: Any) -> None:
    assert decode(json.dumps({"metadata": {"name": "x"}, "spec": {}}).encode()).key == "x"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-03-01T12:00:00Z", 1772366400.0),
        ("2026-03-01T13:00:00+01:00", 1772366400.0),
        ("2026-03-01t12:00:00z", 1772366400.0),
        ("2026-03-01T12:00:00.500000Z", 1772366400.5),
        ("soon", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_an_instant_is_read_in_one_way(text: str | None, seconds: float) -> None:
    """As a time, and as the seconds that a record holds."""
    assert epoch_seconds(text) == seconds
    assert from_epoch(seconds) == parse_instant(text) == (datetime.fromtimestamp(seconds, UTC) if seconds else None)
