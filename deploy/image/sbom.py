"""The list of what is in the image (CycloneDX): Python packages by cyclonedx-py, and the Debian packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from deploy.image.commands import ImageError, run
from deploy.image.debian import DISTRIBUTION, Package

VERSION = SchemaVersion.V1_6


def python_packages(sites: Iterable[Path], project: Path, created: int) -> dict[str, Any]:
    """Return the document that cyclonedx-py writes for the packages in some folders and for a `pyproject.toml`.

    Raises:
        ImageError: it is not about exactly the packages that are there.
    """
    folders = [str(site) for site in sites]
    # cyclonedx-py asks an interpreter for its path. PYTHONPATH would change what cyclonedx-py itself imports.
    interpreter = project.with_name("interpreter")
    interpreter.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(folders))})\n")
    interpreter.chmod(0o755)
    options = ("--output-reproducible", f"--spec-version={VERSION.to_version()}", f"--pyproject={project}")
    program = Path(sys.executable).with_name("cyclonedx-py")
    output = run(program, "environment", *options, interpreter, env={"SOURCE_DATE_EPOCH": str(created)})
    document: dict[str, Any] = json.loads(output)
    root = document["metadata"]["component"]
    installed = {(distribution.name, distribution.version) for distribution in distributions(path=folders)}
    # pyproject.toml reads the version from a file, and cyclonedx-py does not.
    root.setdefault("version", dict(installed).get(root["name"]))
    listed = {(component["name"], component["version"]) for component in [*document["components"], root]}
    if listed != installed:
        raise ImageError(f"cyclonedx-py listed other packages than the image has: {sorted(listed ^ installed)}.")
    return document


def with_debian(document: dict[str, Any], packages: Iterable[Package]) -> dict[str, Any]:
    """Return the document with a component for each Debian package."""
    components = [*document["components"], *(component(package) for package in packages)]
    return document | {"components": sorted(components, key=lambda component: str(component["bom-ref"]))}


def component(package: Package) -> dict[str, Any]:
    """Return what the document says about a Debian package. Scanners find its faults by the purl."""
    qualifiers = {"arch": package.architecture, "distro": DISTRIBUTION}
    if package.source != package.name:
        qualifiers["upstream"] = package.source
    purl = PackageURL("deb", "debian", package.name, package.version, qualifiers).to_string()
    return {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version, "purl": purl}


def write(document: dict[str, Any], file: Path) -> None:
    """Write the document.

    Raises:
        ImageError: it is not valid CycloneDX.
    """
    from cyclonedx.validation.json import JsonStrictValidator  # makes a parser of IRIs, which takes a second

    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    if fault := JsonStrictValidator(VERSION).validate_str(text):
        raise ImageError(f"The list of components is not valid CycloneDX: {fault}.")
    file.write_text(text)
