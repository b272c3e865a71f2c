"""An API server with the objects that `--live` reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulate.api_server import ApiServer, api_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ApiServer]]:
    """An API server that the kubeconfig names."""
    with api_server(tmp_path, monkeypatch) as running:
        yield running
