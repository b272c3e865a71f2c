"""The keys of a kubeconfig do not stay in the directory of temporary files when a process of the worker ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import kubeconfig
from sandbox.certificates import Authority

CONNECTS_AND_EXITS = """
import asyncio, os
from activities.kubernetes.client import Kube
from worker.runtime.hard_exit import hard_exit

asyncio.run(Kube.connect())
print(sum(len(files) for _, _, files in os.walk(os.environ["TMPDIR"])), flush=True)
hard_exit(0)
"""
"""Prints how many temporary files there are while the process is connected."""
CANNOT_DELETE = """
import os
from activities.kubernetes import credential_files
from worker.runtime.hard_exit import hard_exit

os.rmdir(credential_files.path())
open(credential_files.path(), "w").close()  # a file, which cannot be deleted as a directory
hard_exit(7)
"""
READS_SETTINGS = """
from worker.settings.configmaps import read_in_child_process

print(read_in_child_process("default"))
"""


def _output(tmp_path: Path, program: str) -> str:
    """What a program prints that has a kubeconfig with a key, after it left no temporary files."""
    path, temporary = tmp_path / "kubeconfig", tmp_path / "temporary"
    temporary.mkdir()
    authority = Authority()
    kubeconfig.with_certificate(path, "https://127.0.0.1:1", authority.certificate, authority.client("worker"))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KUBECONFIG": str(path), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [str(file.relative_to(temporary)) for file in temporary.rglob("*")] == []
    return ended.stdout.strip()


@pytest.mark.integration
def test_a_process_that_skips_pythons_shutdown_deletes_them(tmp_path: Path) -> None:
    assert _output(tmp_path, CONNECTS_AND_EXITS) == "3", "the certificates of the authority and of the client, its key"


@pytest.mark.integration
def test_the_child_process_that_reads_old_settings_deletes_them(tmp_path: Path) -> None:
    assert "cannot be reached" in _output(tmp_path, READS_SETTINGS)


@pytest.mark.integration
def test_a_process_exits_with_its_status_if_they_cannot_be_deleted(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", CANNOT_DELETE], env=environment, check=False)
    assert ended.returncode == 7
