"""Where the sources of a program's modules are, and what a person reads when Go cannot get them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import golang
from sandbox.build import BuildError
from sandbox.go_tool import GoTool

pytestmark = pytest.mark.integration


def tool_with_go_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> GoTool:
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
    monkeypatch.setattr(golang, "find", lambda _: go)
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.26.0\n")
    return GoTool(name="tool", source=tmp_path, code="tools.go", package=".", duration="a moment")


def test_the_folder_of_a_module_is_what_go_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tool_with_go_that(tmp_path, monkeypatch, 'echo "{\\"Path\\": \\"$4\\", \\"Dir\\": \\"/modules/$4@v1\\"}"')
    assert tool.module_folder("example.org/m") == Path("/modules/example.org/m@v1")


def test_a_module_that_go_cannot_get_is_an_error_with_gos_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tool_with_go_that(tmp_path, monkeypatch, "echo 'no such module' >&2; exit 1")
    with pytest.raises(BuildError, match=r"Go could not read example\.org/m: no such module"):
        tool.module_folder("example.org/m")
