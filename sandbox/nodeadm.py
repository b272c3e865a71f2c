"""Builds AWS's nodeadm once from its pinned Go module, so that user data is read as AL2023's nodes read it.

`nodetools/main.go` calls nodeadm's own packages.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.go_tool import GoTool

NODEADM = GoTool(
    name="nodeadm",
    source=Path(__file__).parent / "nodetools",
    code="main.go",
    package=".",
    duration="about two minutes on two cores",
)
