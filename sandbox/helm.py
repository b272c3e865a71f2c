"""Builds Helm once from pinned Go modules, so that charts are rendered with the tool that users have.

It is a separate Go module, so that an update of Helm does not rebuild the control plane. It uses the control plane's
Kubernetes libraries, which are already in Go's cache; the rest takes about half a minute.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sandbox import build, golang
from sandbox.parent_death import dying_with_parent
from sandbox.progress import OnProgress, Progress, silent
from tenon.errors import TenonError

SOURCE = Path(__file__).parent / "charttools"
SOURCE_FILES = ("go.mod", "go.sum", "tools.go")
FLAGS = ("-trimpath", "-ldflags", "-s -w")
PACKAGE = "helm.sh/helm/v3/cmd/helm"
PROGRAM = "helm"


class HelmError(TenonError):
    """Helm rejected a chart or its values. The message is Helm's own."""


def ensure(on_progress: OnProgress = silent) -> Path:
    """Return the helm program. Builds it if necessary.

    Raises:
        BuildError: the build failed.
        MissingToolError: there is no suitable Go.
    """
    target = build.cache_root().parent / "helm" / _content_hash()
    if (target / PROGRAM).is_file():
        return target / PROGRAM
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with build.lock(target.parent / f"{target.name}.lock", on_progress):
            if not (target / PROGRAM).is_file():
                _build(target, on_progress)
    except OSError as error:
        raise build.BuildError(f"Helm cannot be kept in {target}: {error}.") from error
    return target / PROGRAM


def template(chart: Path, *arguments: str, values: Sequence[Path] = ()) -> str:
    """Render the manifests of a chart, as the release ``tenon``.

    Raises:
        HelmError: Helm rejected the chart or its values.
    """
    files = [part for path in values for part in ("--values", str(path))]
    command = [str(ensure()), "template", "tenon", str(chart), "--namespace", "tenon", *files, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise HelmError(answer.stderr.strip())
    return answer.stdout


def _content_hash() -> str:
    digest = hashlib.sha256()
    for name in SOURCE_FILES:
        digest.update((SOURCE / name).read_bytes())
    digest.update("\n".join((*FLAGS, PACKAGE, platform.system(), platform.machine())).encode())
    return digest.hexdigest()[:20]


def _build(target: Path, on_progress: OnProgress) -> None:
    go = golang.find(golang.needed((SOURCE / "go.mod").read_text()))
    on_progress(Progress("building helm once, about half a minute if a control plane was built here before"))
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        answer = subprocess.run(
            dying_with_parent(str(go), "build", *FLAGS, "-o", f"{scratch}/{PROGRAM}", PACKAGE),
            cwd=SOURCE,
            env=os.environ | {"GOFLAGS": "", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise build.BuildError(f"Go could not build helm. Its last lines:\n{answer.stderr[-2000:].rstrip()}")
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
