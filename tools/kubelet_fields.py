"""Writes `tenon/apis/kubelet_fields.py` from the kubelet's own Go type: ``python -m tools.kubelet_fields [VERSION]``.

It needs Go and its module proxy, so `make generate` does not do it. `tests/tools/test_kubelet_fields.py` compares the
table with the type, and what Tenon says of settings with what a strict Go decoder says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.application import create_app
from sandbox import golang
from sandbox.go_tool import GoTool

MODULE = "k8s.io/kubelet"
FOLDER = Path(__file__).parent / "kubelettypes"
TABLE = Path(__file__).parents[1] / "tenon" / "apis" / "kubelet_fields.py"
TYPES = GoTool(
    name="kubelettypes",
    source=FOLDER,
    code="main.go",
    package=".",
    duration="seconds if a control plane of the same Kubernetes was built here before, or else about four minutes",
)

app = create_app()


@app.command()
def write(
    version: Annotated[str, typer.Argument(help="Go to this version of k8s.io/kubelet first, such as v0.38.0.")] = "",
) -> None:
    """Write the table of the kubelet's settings from k8s.io/kubelet."""
    if version:
        _require(version)
    TABLE.write_text(table_text(), encoding="utf-8")
    typer.echo(f"wrote {TABLE}")


def _require(version: str) -> None:
    """Change go.mod and go.sum of the Go program."""
    go = golang.find(golang.needed((FOLDER / "go.mod").read_text()))
    for arguments in (("get", f"{MODULE}@{version}"), ("mod", "tidy")):
        subprocess.run([go, *arguments], cwd=FOLDER, env=os.environ | {"GOFLAGS": "", "GOWORK": "off"}, check=True)


def table_text() -> str:
    """Return the module with the table, as ruff formats it."""
    table = fields()
    return "\n".join(
        (
            '"""The fields of KubeletConfiguration v1beta1, from Go. Made by `python -m tools.kubelet_fields`."""',
            "",
            "from __future__ import annotations",
            "",
            "from collections.abc import Mapping, Sequence",
            "",
            f'KUBERNETES = "{kubernetes_version()}"',
            '"""The Kubernetes whose kubelet has these fields."""',
            f"TYPES: Mapping[str, Mapping[str, str]] = {_literal(table['types'])}",
            '"""The kind of each field of each type."""',
            f"VALUES: Mapping[str, Sequence[str]] = {_literal(table['values'])}",
            '"""The values that each kind of text may have."""',
            "",
        )
    )


def fields() -> Any:
    """Return what the Go program reads from the type: ``types`` and ``values``, sorted by name."""
    source = TYPES.module_folder(MODULE) / "config" / "v1beta1"
    answer = subprocess.run([TYPES.ensure(), "types", source], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def kubernetes_version() -> str:
    """Return the Kubernetes of the module: 1.37 for v0.37.2."""
    match = re.search(rf"{re.escape(MODULE)} v0\.(\d+)\.", (FOLDER / "go.mod").read_text())
    if match is None:
        raise ValueError(f"{FOLDER / 'go.mod'} requires no {MODULE} v0.MINOR.PATCH: correct it")
    return f"1.{match[1]}"


def _literal(value: Any, indent: str = "") -> str:
    """Return a dictionary, list or string as a literal with one entry a line."""
    inner = indent + "    "
    if isinstance(value, dict):
        entries = [f"{inner}{json.dumps(name)}: {_literal(entry, inner)},\n" for name, entry in value.items()]
        return "{\n" + "".join(entries) + indent + "}" if entries else "{}"
    if isinstance(value, list):
        return "(\n" + "".join(f"{inner}{json.dumps(entry)},\n" for entry in value) + indent + ")"
    return json.dumps(value)


if __name__ == "__main__":
    app()
