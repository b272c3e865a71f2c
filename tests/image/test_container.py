"""The built image runs Tenon in a container that may do nothing else (OPS-12)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from cli.commands import COMMANDS
from deploy.image.debian import PYTHON
from deploy.image.wheels import SITE
from tests.image.container import ARCHIVE, ROOT, SHARED, Container, unable

pytestmark = pytest.mark.integration

LOOK_AROUND = """
import json, os, ssl
from pathlib import Path

def writes(folder):
    try:
        Path(folder, "file").touch()
    except OSError as error:
        return error.strerror
    return ""

status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "folder": os.getcwd(),
    "capabilities": status["CapBnd"].strip(),
    "no new privileges": status["NoNewPrivs"].strip(),
    "writes": {folder: writes(folder) for folder in ("/", "/usr/local", "/tmp")},
    "authorities": ssl.create_default_context().cert_store_stats()["x509_ca"],
    "zones": Path("/usr/share/zoneinfo/Europe/Berlin").exists(),
}))
"""
UNCHECKED_HASH = b"\1\0\0\0"
"""The flags in byte code that depends on the source alone."""
NEVER_THERE = {
    *("sh", "bash", "dash", "busybox", "perl", "apt", "apt-get", "dpkg", "pip", "pip3", "uv", "conda"),
    *("cc", "gcc", "g++", "ld", "as", "make", "tar", "curl", "wget", "openssl", "su", "sudo", "mount"),
}


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    if reason := unable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("image")
    yield Container.unpack(ARCHIVE, folder)
    shutil.rmtree(folder)


def plan(done: subprocess.CompletedProcess[str]) -> Any:
    """The plan that `tenon simulate -o json` printed, without the time it took."""
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    del answer["totals"]["solveSeconds"]
    return answer


def test_the_help_names_every_command(container: Container) -> None:
    done = container.tenon("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {command} " in done.stdout for command in COMMANDS)


def test_settings_and_the_help_of_simulate_work(container: Container) -> None:
    settings, usage = container.tenon("settings", "--cluster-name", "orders"), container.tenon("simulate", "--help")
    assert (settings.returncode, usage.returncode) == (0, 0), settings.stderr + usage.stderr
    assert "BATCH_IDLE_DURATION" in settings.stdout
    assert "Usage: tenon simulate" in usage.stdout


def test_the_sandbox_says_what_to_install(container: Container) -> None:
    done = container.tenon("sandbox")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tenon sandbox needs the extra `sandbox`, which is not installed here")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("files", [("simulate/nodepool.yaml", "simulate/small-400.yaml"), ("simulate/shop",)])
def test_a_plan_is_the_one_that_this_machine_makes(container: Container, files: tuple[str, ...]) -> None:
    def arguments(folder: str) -> list[str]:
        return ["simulate", *(word for file in files for word in ("-f", f"{folder}/{file}")), "-o", "json"]

    executables = [sys.executable, "-m", "cli", *arguments("examples")]
    done = subprocess.run(executables, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    expected = plan(done)
    assert expected["nodeClaims"]
    in_image = container.tenon(*arguments(SHARED))
    assert plan(in_image) == expected
    assert in_image.stderr == done.stderr


def test_ops12_it_is_an_ordinary_user_with_a_read_only_root(container: Container) -> None:
    done = container.run("python3", "-c", LOOK_AROUND)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    authorities = document.pop("authorities")
    assert document == {
        "user": [65532, 65532],
        "folder": "/tmp",
        "capabilities": "0" * 16,
        "no new privileges": "1",
        "writes": {"/": "Read-only file system", "/usr/local": "Read-only file system", "/tmp": ""},
        "zones": True,
    }
    assert authorities > 50


def test_it_has_no_shell_compiler_package_manager_or_sandbox(container: Container) -> None:
    root = container.files
    files = [path for path in root.rglob("*") if not path.is_dir()]
    programs = {path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).glob("*")}
    assert programs == {"python3", f"python{PYTHON}"}
    assert {path.name for path in (root / "usr/local/bin").iterdir()} == {"tenon"}
    assert {path.name for path in files} & NEVER_THERE == set()
    assert [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o6000] == []
    packages = {path.name for path in (root / SITE).iterdir()}
    own = {path.name for path in (root / SITE / "tenon_autoscaler/packages").iterdir()}
    assert own == {"tenon", "workflows", "activities", "worker", "cli"}
    assert packages & {*own, "sandbox", "moto", "flask", "psutil", "pip", "setuptools", "pytest"} == set()


def test_every_module_has_byte_code_that_names_no_time(container: Container) -> None:
    """A process cannot write what is missing, and byte code with a time would make each build another image."""
    modules = [
        path for folder in (SITE, f"usr/lib/python{PYTHON}") for path in (container.files / folder).rglob("*.py")
    ]
    compiled = [
        path.parent / "__pycache__" / f"{path.stem}.cpython-{PYTHON.replace('.', '')}{level}.pyc"
        for path in modules
        for level in ("", ".opt-2")  # the commands, and the worker's processes
    ]
    assert [path for path in compiled if not path.exists()] == []
    assert {path.read_bytes()[4:8] for path in compiled} == {UNCHECKED_HASH}


def test_the_list_of_components_has_every_package(container: Container) -> None:
    document = json.loads(ARCHIVE.with_name("sbom.cdx.json").read_text())
    components = [*document["components"], document["metadata"]["component"]]
    listed = {(component["name"], component["version"]) for component in components}
    installed = {
        (distribution.name, distribution.version) for distribution in distributions(path=[str(container.files / SITE)])
    }
    assert installed <= listed
    records = sorted(container.files.joinpath("var/lib/dpkg/status.d").iterdir())
    debian = {(record.name, version_in(record)) for record in records}
    assert debian | installed == listed
    assert {"libc6", "libstdc++6", f"python{PYTHON}-minimal", "tzdata"} <= {name for name, _ in debian}
    assert "serialNumber" not in document


def version_in(record: Path) -> str:
    """The version in the record of a Debian package."""
    (version,) = [line.split()[1] for line in record.read_text().splitlines() if line.startswith("Version:")]
    return version
