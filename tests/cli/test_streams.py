"""Commands whose input or output is closed, full or cut off: a sentence and a status, as any other tool has them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from cli.main import set_encoding
from cli.shadowing.store import ShadowFile

pytestmark = pytest.mark.integration

MANIFEST = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


def tenon(redirected: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command through a shell, in a folder that has a manifest."""
    (folder / "web.yaml").write_text(MANIFEST)
    command = ["bash", "-c", f'"{sys.executable}" -m cli {redirected}; exit ${{PIPESTATUS[0]}}']
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("redirected", "status", "text"),
    [
        ("convert -f - <&-", 2, "standard input: cannot be read: it is closed\n"),
        ("convert -f web.yaml >&-", 0, ""),
        ("validate -f web.yaml >/dev/full", 1, "tenon: the output cannot be written: No space left on device\n"),
        ("convert -f web.yaml | true", 1, ""),
    ],
)
def test_streams_that_do_not_work(tmp_path: Path, redirected: str, status: int, text: str) -> None:
    result = tenon(redirected, tmp_path)
    assert (result.returncode, result.stderr) == (status, text)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_manifests_are_utf8_whatever_the_locale_says(tmp_path: Path, form: str) -> None:
    """A file in another encoding would be no manifest."""
    manifest = MANIFEST.replace("{name: web}", "{name: web, annotations: {owner: Zo\u00eb}}")
    (tmp_path / "zoe.yaml").write_text(manifest, encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "cli", "convert", "-f", "zoe.yaml", "-o", form]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=120)
    assert (result.returncode, result.stderr) == (0, b"")
    assert "Zo\u00eb" in result.stdout.decode()


def test_a_terminal_shows_escapes_for_what_it_cannot_show() -> None:
    """Those of standard error are Python's own."""
    terminal, line = pty.openpty()
    with os.fdopen(line, "w", encoding="ascii") as stream, patch.object(sys, "stdout", stream):
        set_encoding()
        print("Zo\u00eb", flush=True)
        assert os.read(terminal, 100) == b"Zo\\xeb\r\n"
    os.close(terminal)


def test_a_reader_of_the_last_report_may_leave(tmp_path: Path) -> None:
    store = ShadowFile(tmp_path / "tenon-shadow.db")
    store.save_report('{"notes": ["' + "long" * 100_000 + '"]}')
    store.close()
    result = tenon("shadow --last -o json | true", tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
