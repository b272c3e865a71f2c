"""Commands whose input or output is closed, full or cut off: a sentence and a status, as any other tool has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_reader_of_the_last_report_may_leave(tmp_path: Path) -> None:
    store = ShadowFile(tmp_path / "tenon-shadow.db")
    store.save_report('{"notes": ["' + "long" * 100_000 + '"]}')
    store.close()
    result = tenon("shadow --last -o json | true", tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
