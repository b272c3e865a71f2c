"""Builds Kubernetes' programs once from pinned Go modules, for all checkouts on this machine.

Release binaries may not be reachable where this runs, but the Go module proxy is, and go.sum pins every byte. The
result is cached under the hash of all inputs. A build happens in its own folder and is renamed at the end, so an
incomplete cache is never visible. A file lock makes the second of two builds wait for the first and use its result.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox import golang
from sandbox.parent_death import dying_with_parent
from sandbox.progress import OnProgress, Progress
from tenon.errors import TenonError

SOURCE = Path(__file__).parent / "controlplane"
SOURCE_FILES = ("go.mod", "go.sum", "tools.go")
FLAGS = ("-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2")
PACKAGES = (
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "sigs.k8s.io/kwok/cmd/kwok",
    "go.etcd.io/etcd/server/v3",
)
PROGRAMS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok", "etcd")


@dataclass(frozen=True)
class Programs:
    """Programs of the modules in SOURCE that are built together and kept together, apart from those of other builds."""

    subject: str
    """What they are, in words."""
    cache: str
    """The folder that keeps them."""
    packages: tuple[str, ...]
    names: tuple[str, ...]
    """The names of the built files."""
    cold_cpu_minutes: float
    """CPU minutes to compile everything that no build of the others has compiled."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Files to which Go gives another name than ``names``: that name, and the one in ``names``."""


CONTROL_PLANE = Programs(
    subject="the control plane",
    cache="controlplane",
    packages=PACKAGES,
    names=PROGRAMS,
    cold_cpu_minutes=10.7,  # measured with an empty Go cache. The work scales well to up to 8 cores
    renamed=(("server", "etcd"),),
)


class BuildError(TenonError):
    """Programs could not be built. The message is a sentence and the end of Go's output."""


def cache_root(builds: Programs = CONTROL_PLANE) -> Path:
    """The folder for builds, shared by all checkouts of this user."""
    own = os.environ.get("TENON_CACHE_DIR")
    if own:
        return Path(own).expanduser() / builds.cache
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tenon" / builds.cache


def content_hash(source: Path = SOURCE, builds: Programs = CONTROL_PLANE) -> str:
    """The cache key of the result. It changes with the modules, the flags, the programs and the platform."""
    digest = hashlib.sha256()
    for name in SOURCE_FILES:
        data = (source / name).read_bytes()
        digest.update(f"{name} {len(data)}\n".encode() + data)
    digest.update("\n".join((*FLAGS, *builds.packages, platform.system(), platform.machine())).encode())
    return digest.hexdigest()[:20]


def estimate(builds: Programs = CONTROL_PLANE) -> str:
    """How long a build takes on this machine with an empty cache, in words."""
    cores = os.cpu_count() or 1
    minutes = max(2, round(builds.cold_cpu_minutes / min(cores, 8) + 0.5))
    return f"about {minutes} minutes on {cores} {'core' if cores == 1 else 'cores'}"


def ensure(on_progress: OnProgress, builds: Programs = CONTROL_PLANE) -> Path:
    """Return the folder with the programs. Builds them if necessary.

    Raises:
        BuildError: the build failed.
        MissingToolError: there is no suitable Go.
    """
    target = cache_root(builds) / content_hash(builds=builds)
    if _complete(target, builds):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target.parent / f"{target.name}.lock", on_progress, builds.subject):
            if not _complete(target, builds):
                _build(target, builds, on_progress)
    except OSError as error:
        raise BuildError(f"{sentence(builds.subject)} cannot be kept in {target}: {error}.") from error
    return target


def sentence(words: str) -> str:
    """The words as the start of a sentence."""
    return words[:1].upper() + words[1:]


def _complete(folder: Path, builds: Programs) -> bool:
    return all((folder / name).is_file() for name in builds.names)


@contextmanager
def lock(path: Path, on_progress: OnProgress, subject: str) -> Iterator[None]:
    """Hold the file lock ``path``. Reports once if another process holds it, which builds ``subject``. The kernel
    releases it if the holder dies.
    """
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(Progress(f"another build of {subject} is running: waiting for it"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(target: Path, builds: Programs, on_progress: OnProgress) -> None:
    go = golang.find(golang.needed((SOURCE / "go.mod").read_text()))
    began = time.monotonic()
    on_progress(
        Progress(f"building {builds.subject} once with {go}: {estimate(builds)}, seconds when Go's own cache is warm")
    )
    for remainder in target.parent.glob(f"{target.name}.*/"):  # left by a build that was killed: we hold the lock
        shutil.rmtree(remainder, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        follow = _Follow(builds.subject, began, on_progress)
        total = _run_go([go, "list", "-deps", *builds.packages], "fetching modules", 0, follow)
        _run_go([go, "build", "-v", *FLAGS, "-o", f"{scratch}/", *builds.packages], "compiling", total, follow)
        for value, name in builds.renamed:
            (scratch / value).rename(scratch / name)
        scratch.chmod(0o755)
        if target.exists():  # a cache that lost a file
            shutil.rmtree(target)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    on_progress(Progress(f"built {builds.subject} in {_duration(time.monotonic() - began)}: {target}"))


@dataclass(frozen=True)
class _Follow:
    """Where a build reports to, and since when it runs."""

    subject: str
    began: float
    on_progress: OnProgress

    def count(self, doing: str, count: int, total: int) -> None:
        of = f" of at most {total} packages" if total else ""
        duration = _duration(time.monotonic() - self.began)
        name = self.subject.removeprefix("the ")
        self.on_progress(Progress(f"{name}: {doing} {count}{of}, {duration} gone", lasting=False))


def _run_go(command: list[str | Path], doing: str, total: int, follow: _Follow) -> int:
    """Run Go and report progress by counting its lines, each of which names a package or module. Returns the count."""
    tail: deque[str] = deque(maxlen=15)
    count = 0
    with subprocess.Popen(
        dying_with_parent(*map(str, command)),
        cwd=SOURCE,
        env=os.environ | {"GOFLAGS": "", "GOWORK": "off"},  # ignore the settings of the user's own Go projects
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail.append(line)
                count += 1
                follow.count(doing, count, total)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise BuildError(
            f"Go could not build {follow.subject} (`{command[0]} {command[1]}` ended with status "
            f"{process.returncode}). Its last lines:\n{''.join(tail).rstrip()}"
        )
    return count


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
