"""What the page asks for: the manifests and changes of a plan, and of the plan to compare with."""

from __future__ import annotations

import json

import msgspec

from tenon.simulation.market import MarketChange


class Setup(msgspec.Struct, frozen=True):
    """The input of one plan."""

    manifests: str = ""
    changes: tuple[MarketChange, ...] = ()
    disruption: bool = False
    """Decide which existing nodes would be removed, too."""


class PageRequest(msgspec.Struct, frozen=True):
    """The input of one page."""

    setup: Setup
    before: Setup | None = None
    """The plan to compare with. None: the plan of the page itself, with which later ones are compared."""
    refusal: str = ""
    """Why nothing is planned; empty if it is."""
    example: str = ""
    """The name of the example that the setup is; empty for what was edited."""
    own_files: bool = False
    """The command line named manifests, which are an example too."""


def encoded(setup: Setup) -> str:
    """Return the setup as JSON of ASCII characters, as a page can hold it."""
    return json.dumps(msgspec.to_builtins(setup))


def decoded(text: str) -> Setup:
    """Return the setup of a page.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return msgspec.json.decode(text, type=Setup)
