"""The documents mark command blocks that need a sandbox with a worker. The blocks of a document work in their order."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from sandbox.kubectl import kubectl
from tests.docs.documents import DOCUMENTS, ROOT, name_of, text_of
from tests.docs.runnable import ON_SANDBOX, commands, folder_of_a_reader
from tests.e2e.worker import Worker

SECONDS = 780
"""Ends a command that hangs before pytest ends its test."""
WAITS, FOR_LONG = re.compile(r"--timeout=\d+m\b"), "--timeout=12m"
"""How long `kubectl` waits: on the machine of a reader, and on one that is busy with other tests too."""
MADE = ("inflate", "web-load", "nodepool", "ec2nodeclass")
"""The examples that documents create."""
MARKED = [document for document in DOCUMENTS if ON_SANDBOX in text_of(document).splitlines()]


@pytest.fixture
def reader(sandbox: Sandbox, worker: Worker, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader who followed a document to its first marked block. Removes what it made."""
    examples = [ROOT / "examples" / f"{name}.yaml" for name in MADE]
    sandbox.apply(examples[-1:])
    run_kubectl(sandbox, "wait", "--for=condition=Ready", "ec2nodeclass/default")
    yield {
        "PATH": folder_of_a_reader(tmp_path),
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "KUBECONFIG": str(sandbox.kubeconfig),
        "TENON_SANDBOX_DIR": str(sandbox.layout.root),
        "TEMPORAL_ADDRESS": sandbox.temporal_address,
        "CLUSTER_NAME": sandbox.cluster_name,
    }
    for path in examples:
        run_kubectl(sandbox, "delete", "--ignore-not-found", "--filename", str(path))


def run_kubectl(sandbox: Sandbox, *arguments: str) -> None:
    """Run kubectl, which may wait for long."""
    kubectl(sandbox.kubeconfig, *arguments, FOR_LONG, timeout=SECONDS)


@pytest.mark.parametrize("document", MARKED, ids=name_of)
def test_the_blocks_of_a_document_work_on_the_sandbox(sandbox: Sandbox, reader: dict[str, str], document: Path) -> None:
    """`CLUSTER` stands for the name of the cluster."""
    for command in commands(name_of(document), text_of(document), ON_SANDBOX):
        text = WAITS.sub(FOR_LONG, re.sub(r"\bCLUSTER\b", sandbox.cluster_name, command.text))
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=reader["HOME"],
            env=reader,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert answer.returncode == 0, f"{command.place}: {command.text}\n{answer.stdout}\n{answer.stderr}"


def test_marked_documents_are_found() -> None:
    assert {name_of(document) for document in MARKED} >= {"docs/eks.md", "docs/walkthrough-hpa.md"}
