"""The wheel in an environment of its own, as `pip install tenon-autoscaler` gives it to a user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
UV = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".uv/bin/uv")
TAKEN = ("activities", "cli", "sandbox", "tenon", "worker", "workflows")
"""Names of top-level packages that anyone may use."""

DEFINITIONS = {path.name for path in (ROOT / "deploy/crds").iterdir()}

Install = Callable[[str], Path]


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program without what this process's environment would change about it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env=environment | variables, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files in the working tree."""
    if shutil.which(UV) is None:
        pytest.skip("The test of the wheel needs uv: `make` installs it in .uv, or name the program in UV.")
    folder = tmp_path_factory.mktemp("dist")
    built = run(UV, "build", "--wheel", "--out-dir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes a new environment that has the wheel, with an extra, and the locked versions of what it depends on."""
    constraints = tmp_path_factory.mktemp("locked") / "constraints.txt"
    options = ("--frozen", "--all-extras", "--no-default-groups", "--no-emit-project", "--no-hashes", "--output-file")
    exported = run(UV, "export", "--quiet", *options, constraints)
    assert exported.returncode == 0, exported.stderr

    def install(extra: str) -> Path:
        environment = tmp_path_factory.mktemp("environment") / "venv"
        python = environment / "bin/python"
        created = run(UV, "venv", "--quiet", environment)
        assert created.returncode == 0, created.stderr
        installed = run(
            UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints, f"{wheel}{extra}"
        )
        assert installed.returncode == 0, installed.stderr
        return environment

    return install


@pytest.fixture(scope="module")
def plain(install: Install) -> Path:
    """An environment that has the wheel alone."""
    return install("")


def test_it_installs_one_package_and_its_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"tenon_autoscaler"}
    commands = [line.partition(" = ")[0] for line in entry_points.splitlines()]
    assert commands == ["[console_scripts]", "kubectl-tenon", "kubectl_complete-tenon", "tenon"]
    packages = {name.split("/")[2] for name in names if name.startswith("tenon_autoscaler/packages/")}
    assert packages == {*TAKEN, "deploy", "examples"}
    assert {Path(name).name for name in names if "/packages/deploy/crds/" in name} == DEFINITIONS
    assert [name for name in names if "__pycache__" in name] == []
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_source_distribution_has_every_file_of_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Also those behind links: hatchling leaves out a folder that it meets a second time."""
    built = run(UV, "build", "--sdist", "--out-dir", tmp_path, ROOT)
    assert built.returncode == 0, built.stderr
    (file,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = {path for path in run("git", "ls-files").stdout.splitlines() if (ROOT / path).is_file()}
    linked = {f"deploy/{folder}/{name}" for folder in ("chart/crds", "chart-crd/definitions") for name in DEFINITIONS}
    assert (listed | linked) - names == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "-f", "simulate/nodepool.yaml", "-f", "simulate/small-400.yaml"),
        ("validate", "-f", "nodepool.yaml"),
        ("convert", "-f", "seeds/000-first-look.yaml"),
        ("explain", "--help"),
    ],
)
def test_commands_about_files_work_with_the_wheel_alone(plain: Path, arguments: tuple[str, ...]) -> None:
    done = run(plain / "bin/tenon", *arguments, cwd=ROOT / "examples")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_worker_says_which_extra_it_needs(plain: Path) -> None:
    done = run(plain / "bin/tenon", "worker", cwd=plain)
    assert done.returncode == 2
    assert done.stderr == (
        "tenon worker needs the extra `worker`, which is not installed here (temporalio is missing): "
        "pip install 'tenon-autoscaler[worker]'\n"
    )


def test_packages_of_the_same_names_are_neither_hidden_nor_in_the_way(plain: Path) -> None:
    (site,) = plain.glob("lib/python3*/site-packages")
    try:
        for name in TAKEN:
            (site / f"{name}.py").write_text("OTHERS = True\n")
        code = f"import {', '.join(TAKEN)}; print(all(each.OTHERS for each in ({', '.join(TAKEN)})))"
        theirs = run(plain / "bin/python", "-c", code, cwd=plain)
        assert theirs.stdout == "True\n", theirs.stderr
        ours = run(plain / "bin/tenon", "validate", "-f", "nodepool.yaml", cwd=ROOT / "examples")
        assert ours.returncode == 0, ours.stderr
    finally:
        for name in TAKEN:
            (site / f"{name}.py").unlink(missing_ok=True)


def test_the_processes_of_a_worker_find_the_packages(install: Install, tmp_path: Path) -> None:
    """The command replaces itself by the worker's parent, which starts two more processes."""
    environment = install("[worker]")
    missing = tmp_path / "kubeconfig"
    done = run(
        *(environment / "bin/tenon", "worker", "--cluster-name", "c"),
        cwd=tmp_path,
        TEMPORAL_ADDRESS="127.0.0.1:1",
        KUBECONFIG=str(missing),
    )
    assert done.stderr.startswith(f"The Kubernetes client cannot be configured: the file {missing}"), done.stderr
    assert done.stderr.count("\n") == 1
