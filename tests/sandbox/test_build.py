"""The cached build: what names it, who waits, and what a person reads when it cannot be."""

from __future__ import annotations

import multiprocessing
import re
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import yaml

from sandbox import build, golang
from sandbox.ec2.images import KUBERNETES
from sandbox.progress import Progress, silent
from sandbox.tools import MissingToolError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the pinned modules."""
    return Path(shutil.copytree(build.SOURCE, tmp_path / "controlplane"))


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("TENON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def go_that(tmp_path: Path, script: str) -> Path:
    """A program that stands in for Go."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("name", build.SOURCE_FILES)
def test_a_changed_module_file_is_another_build(source: Path, name: str) -> None:
    before = build.content_hash(source)
    assert before == build.content_hash()
    (source / name).write_text((source / name).read_text() + "\n")
    assert build.content_hash(source) != before


def test_other_flags_are_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.content_hash()
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-race"))
    assert build.content_hash() != before


def test_everything_that_names_the_version_of_kubernetes_names_that_of_go_mod() -> None:
    required = re.search(r"k8s\.io/kubernetes (v\d+\.\d+)(\.\d+)", (build.SOURCE / "go.mod").read_text())
    assert required is not None
    minor, patch = required.groups()
    assert build.FLAGS[-1].endswith(f"gitVersion={minor}{patch}")
    system, _ = yaml.safe_load_all((build.SOURCE.parent / "system.yaml").read_text())
    assert system["status"]["nodeInfo"]["kubeletVersion"] == f"{minor}{patch}"
    assert f"v{KUBERNETES}" == minor
    versions = (build.SOURCE.parents[1] / "docs" / "releasing.md").read_text()
    assert (
        f"| Kubernetes | {minor[1:]} | tested: API server, scheduler and controller manager {minor[1:]}{patch} "
        in versions
    )


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TENON_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_root() == tmp_path / ".cache" / "tenon" / "controlplane"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_root() == tmp_path / "xdg" / "tenon" / "controlplane"
    monkeypatch.setenv("TENON_CACHE_DIR", str(tmp_path / "own"))
    assert build.cache_root() == tmp_path / "own" / "controlplane"


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8", (1, 26, 8)), ("go1.27rc1 linux", (1, 27, 0)), ("devel", None), ("", None)],
)
def test_go_versions_are_read(text: str, version: golang.Version | None) -> None:
    assert golang.parse(text) == version


def test_the_needed_go_is_the_one_of_go_mod() -> None:
    assert golang.needed((build.SOURCE / "go.mod").read_text()) == (1, 26, 0)


def test_an_old_go_gives_way_to_the_one_from_pypi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(golang, "on_path", lambda _: Path("/old/go"))
    monkeypatch.setattr(golang, "in_virtualenv", lambda _: Path("/new/go"))
    monkeypatch.setattr(golang, "version_of", lambda path: (1, 20, 0) if path == Path("/old/go") else (1, 26, 1))
    assert golang.find((1, 26, 0)) == Path("/new/go")


@pytest.mark.integration
def test_too_old_and_missing_go_are_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(golang, "in_virtualenv", lambda _: None)
    monkeypatch.setattr(golang, "on_path", lambda _: go_that(tmp_path, "echo go1.20.3"))
    with pytest.raises(MissingToolError, match=r"needs Go 1\.26\.0 or newer, but .* is 1\.20\.3: install"):
        golang.find((1, 26, 0))
    monkeypatch.setattr(golang, "on_path", lambda _: None)
    with pytest.raises(MissingToolError, match="none is installed"):
        golang.find((1, 26, 0))


@pytest.mark.integration
def test_a_failed_build_shows_what_go_said_and_leaves_nothing(
    no_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = go_that(tmp_path, '[ "$1" = list ] && exit 0; echo "verifying module: checksum mismatch"; exit 3')
    monkeypatch.setattr(golang, "find", lambda _: go)
    with pytest.raises(build.BuildError, match=r"status 3.*\n.*checksum mismatch"):
        build.ensure(silent)
    assert [path.suffix for path in (no_cache / "controlplane").iterdir()] == [".lock"]


@pytest.mark.integration
def test_a_build_is_made_once_and_found_again(no_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = " ".join(f'"${{out}}{name}"' for name in ("server", *build.PROGRAMS[:-1]))
    script = f'[ "$1" = list ] && exit 0; while [ "$1" != -o ]; do shift; done; out="$2"; touch {names}'
    go = go_that(tmp_path, script)
    monkeypatch.setattr(golang, "find", lambda _: go)
    progresses: list[Progress] = []
    folder = build.ensure(progresses.append)
    assert {path.name for path in folder.iterdir()} == set(build.PROGRAMS)
    assert "minutes on" in str(progresses[0])
    go.unlink()
    progresses.clear()
    assert build.ensure(progresses.append) == folder
    assert progresses == []


def _hold(path: Path, events: Connection) -> None:
    """Another process that builds: says when it has the lock, ends when told."""
    with build.lock(path, silent, "the control plane"):
        events.send("held")
        events.recv()


def test_the_second_of_two_builds_waits_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=_hold, args=(path, theirs))
    other.start()
    assert ours.recv() == "held"
    names: list[str] = []

    def on_progress(progress: Progress) -> None:
        names.append(str(progress))
        ours.send("go on")  # only a build that waits lets the other end

    with build.lock(path, on_progress, "the control plane"):
        other.join()
    assert names == ["another build of the control plane is running: waiting for it"]
