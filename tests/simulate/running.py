"""Runs ``tenon simulate`` on texts, in this process, as a user would on files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cli.simulate
from cli.simulating import simulation
from cli.simulating.files import read_catalogue_file
from tenon.manifests.faults import ManifestError
from tenon.scheduling.model import InstanceType
from tests.command_line import invoke
from tests.tenon.scheduling.builders import ordinary_entries

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
"""


@dataclass(frozen=True)
class Answer:
    """What the command said."""

    status: int
    out: str
    err: str

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of ``-o json``, without the time it took."""
        assert self.status == 0, self.err
        plan: dict[str, Any] = json.loads(self.out)
        del plan["totals"]["solveSeconds"]
        return plan

    @property
    def faults(self) -> list[str]:
        """The lines of a refusal, without the path of the file."""
        assert (self.status, self.out) == (2, "")
        return [line.partition("input.yaml: ")[2] or line for line in self.err.splitlines()]


def catalogue(folder: Path) -> Path:
    """A small catalogue as a file."""
    file = folder / "catalogue.json"
    if not file.exists():
        file.write_text(json.dumps({"instanceTypes": ordinary_entries()}))
    return file


def simulate(folder: Path, text: str, *options: str, stdin: str | bytes | None = None, form: str = "json") -> Answer:
    """Simulate the manifests of a text on the small catalogue."""
    file = folder / "input.yaml"
    file.write_text(text)
    value = [] if "--catalog" in options else ["--catalog", str(catalogue(folder))]
    return command("-f", str(file), "-o", form, *value, *options, stdin=stdin)


def command(*arguments: str, stdin: str | bytes | None = None) -> Answer:
    """Run the command; an exception in it fails the test."""
    with patch.object(simulation, "read_catalogue_file", catalogue_once):
        result = invoke(cli.simulate.app, arguments, stdin)
    return Answer(result.exit_code, result.stdout, result.stderr)


def catalogue_once(name: str | None) -> tuple[list[InstanceType], list[ManifestError]]:
    """The catalogue, which is read once for all tests that use it: most of their time went into the same few."""
    types, faults = _read(name, Path(name).read_bytes() if name is not None and Path(name).is_file() else None)
    return list(types), list(faults)


@lru_cache(maxsize=16)
def _read(name: str | None, content: bytes | None) -> tuple[list[InstanceType], list[ManifestError]]:
    return read_catalogue_file(name)


def deployment(name: str = "web", replicas: int = 3, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> str:
    """A Deployment as YAML; ``spec`` goes into its pods."""
    requests = {"cpu": cpu, "memory": memory}
    pod = {"containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}], **spec}
    return "\n---\n" + json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            },
        }
    )


def node(name: str = "n1", cpu: str = "8", **metadata: Any) -> str:
    """A Node as YAML."""
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "58"}
    return "\n---\n" + json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, **metadata},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
    )
