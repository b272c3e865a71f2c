"""One file decides the version, and everything that names it says the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tenon import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("chart", ["chart", "chart-crd"])
def test_a_chart_has_the_version(chart: str) -> None:
    described = yaml.safe_load((DEPLOY / chart / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (__version__, __version__)


def test_the_plain_manifests_have_the_image_of_the_version() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text()))
    images = {
        container["image"]
        for document in documents
        if document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    assert {image.rpartition(":")[2] for image in images} == {__version__}


def test_the_changelog_begins_with_the_version() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == __version__
