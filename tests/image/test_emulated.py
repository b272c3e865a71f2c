"""The image for arm64, which `make release` builds without running any of it, runs here in QEMU's emulation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.image.commands import run
from deploy.image.debian import PYTHON
from deploy.image.wheels import SITE, unpack
from tests.image.container import ROOT

pytestmark = pytest.mark.integration

RELEASE = ROOT / "build/release"
QEMU = "qemu-aarch64-static"
INTERPRETER = (f"/{QEMU}", f"/usr/bin/python{PYTHON}")
NATIVE_CODE = ("temporalio.worker", "cryptography.x509", "cel_expr_python.cel", "highspy", "kubernetes", "boto3")
"""Packages of the image that have code of the architecture, or import one that has."""
MAGIC = "import importlib.util, sys; sys.stdout.write(importlib.util.MAGIC_NUMBER.hex())"


def unable() -> str:
    """Why this machine cannot run the image, in a sentence; empty if it can."""
    if shutil.which(QEMU) is None:
        return "The test of the image for arm64 needs QEMU: run `apt-get install qemu-user-static`."
    if os.geteuid() != 0:
        return "The test of the image for arm64 needs root, for chroot."
    commit = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    if not RELEASE.exists() or commit not in (RELEASE / "RELEASE.txt").read_text():
        return f"There is no release of the commit {commit[:12]}: run `make release` first."
    return ""


def layers_for(layout: Path, architecture: str) -> list[Path]:
    """The layers of the image for an architecture, from the lowest on."""

    def read(digest: str) -> Any:
        return json.loads((layout / "blobs" / digest.replace(":", "/")).read_text())

    (index,) = json.loads((layout / "index.json").read_text())["manifests"]
    (manifest,) = [
        manifest["digest"]
        for manifest in read(index["digest"])["manifests"]
        if manifest["platform"] == {"architecture": architecture, "os": "linux"}
    ]
    return [layout / "blobs" / layer["digest"].replace(":", "/") for layer in read(manifest)["layers"]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of the image, with QEMU and the examples."""
    if reason := unable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("arm64")
    (archive,) = RELEASE.glob("tenon-image-*.tar")
    unpack(archive, folder / "oci")
    files = folder / "files"
    files.mkdir()
    for layer in layers_for(folder / "oci", "arm64"):
        run("tar", "--extract", "--gzip", f"--file={layer}", f"--directory={files}")
    program = shutil.which(QEMU)
    assert program
    shutil.copy(program, files / QEMU)
    shutil.copytree(ROOT / "examples", files / "tmp/examples")
    yield files
    shutil.rmtree(folder)


def emulated(root: Path, *arguments: str) -> str:
    """What the image's Python prints with these arguments."""
    command = ["chroot", str(root), *INTERPRETER, *arguments]
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_library_loads(root: Path) -> None:
    code = f"import platform, {', '.join(NATIVE_CODE)}; print(platform.machine())"
    assert emulated(root, "-c", code) == "aarch64\n"


def test_it_reads_the_byte_code_that_this_machine_wrote(root: Path) -> None:
    """With another magic number, each process would compile every module again."""
    expected = bytes.fromhex(emulated(root, "-c", MAGIC))
    compiled = list((root / SITE / "tenon_autoscaler").rglob("*.pyc"))
    assert compiled
    assert {path.read_bytes()[:4] for path in compiled} == {expected}


def test_a_plan_is_the_one_that_this_machine_makes(root: Path) -> None:
    def arguments(folder: str) -> list[str]:
        files = ("nodepool.yaml", "small-400.yaml")
        return ["simulate", *(word for file in files for word in ("-f", f"{folder}/simulate/{file}")), "-o", "json"]

    executables = [sys.executable, "-m", "cli", *arguments("examples")]
    done = subprocess.run(executables, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    expected = json.loads(done.stdout)
    plan = json.loads(emulated(root, "/usr/local/bin/tenon", *arguments("/tmp/examples")))
    for item in (expected, plan):
        del item["totals"]["solveSeconds"]
    assert plan["nodeClaims"]
    assert plan == expected
