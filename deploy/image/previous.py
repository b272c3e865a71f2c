"""Names the code that upgrades come from, so that tests install it first and then this commit.

Until there is a release, it is the last commit before `tenon.lifecycle.state.REVISION`: its runs have the old order of
commands. Each release moves COMMIT to the commit of the release before it.
"""

from __future__ import annotations

from pathlib import Path

COMMIT = "9f8ec257a463f2c821593ac0c1f542d2c3731ae4"
REVISION = 0
"""What workflows of nodes began with in that version: the REVISION of its `tenon/lifecycle/state.py`, 0 without one."""


def folder(images: Path) -> Path:
    """Where `make previous-image` writes the image of this commit, below the folder of all images."""
    return images / COMMIT[:12]
