"""The table of the kubelet's settings is that of its Go type, and Tenon's verdict that of a strict Go decoder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tenon.apis.kubelet_fields import TYPES, VALUES
from tenon.apis.kubelet_types import ROOT, type_errors
from tools.kubelet_fields import TABLE, table_text
from tools.kubelet_fields import TYPES as PROGRAM

pytestmark = pytest.mark.integration

SAMPLES: tuple[Any, ...] = (
    True,
    0,
    -1,
    2**31,
    2**32,
    2**53,
    1.5,
    "",
    "x",
    "5",
    "5s",
    "-5s",
    "+1h1.5m",
    "5 s",
    "1d",
    "99999999999h",
    "1Gi",
    "1e3",
    "1Gib",
    "-1",
    [],
    ["x"],
    [1],
    [True],
    [None],
    [{}],
    [{"noSuchField": 1}],
    {},
    {"x": True},
    {"x": "5"},
    {"x": 5},
    {"x": ["5"]},
)
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"MaxPods": 3},
    {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"},
    {"authentication": {"webhook": {"cacheTTL": "1h", "enabled": True}, "x509": {"clientCAFile": "/ca"}}},
    {"logging": {"vmodule": [{"filePattern": "x", "verbosity": 3}], "options": {"json": {"infoBufferSize": "1Ki"}}}},
    {"logging": {"options": {"text": {"infoBufferSize": "1Kb"}}}},
)


def documents() -> Iterator[dict[str, Any]]:
    yield from DOCUMENTS
    for place in places(ROOT, ()):
        for sample in SAMPLES:
            document: Any = sample
            for name in reversed(place):
                document = [document] if isinstance(name, int) else {name: document}
            yield document


def places(type_name: str, outer: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for name, kind in TYPES[type_name].items():
        place = (*outer, name)
        yield place
        if kind in TYPES:
            yield from places(kind, place)
        elif kind.startswith("[]") and kind[2:] in TYPES and kind != "[]Taint":
            yield from places(kind[2:], (*place, 0))


def is_enumeration(document: Any) -> bool:
    """Whether the document sets a text that Go takes whatever it is: the kubelet refuses it only as it starts."""
    text = json.dumps(document)
    return any(f'"{name}": "' in text for fields in TYPES.values() for name, kind in fields.items() if kind in VALUES)


def test_n15_341_the_table_is_that_of_the_kubelets_type() -> None:
    assert TABLE.read_text() == table_text(), "run `python -m tools.kubelet_fields` and commit the result"


def test_n15_341_tenon_refuses_what_a_strict_decoder_of_the_kubelets_type_refuses() -> None:
    checked_documents = [document for document in documents() if not is_enumeration(document)]
    lines = "".join(f"{json.dumps(document)}\n" for document in checked_documents)
    answer = subprocess.run([PROGRAM.ensure(), "decode"], input=lines, capture_output=True, text=True, check=True)
    verdicts = answer.stdout.split("\n")[:-1]
    differing = {
        json.dumps(document): (verdict, str(error))
        for document, verdict in zip(checked_documents, verdicts, strict=True)
        if ((error := type_errors(document)) is None) is bool(verdict)
    }
    assert differing == {}
    assert 0.2 < sum(map(bool, verdicts)) / len(verdicts) < 0.9, "the documents are good and bad ones"
