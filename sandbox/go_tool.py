"""Builds one program from pinned Go modules, once for all checkouts on this machine.

Each such program is a Go module of its own, so that an update of one does not rebuild the control plane.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox import build, golang
from sandbox.parent_death import dying_with_parent
from sandbox.progress import OnProgress, Progress, silent

FLAGS = ("-trimpath", "-ldflags", "-s -w")


@dataclass(frozen=True)
class GoTool:
    """A program, and the folder with its go.mod, its go.sum and one Go file."""

    name: str
    source: Path
    code: str
    """The Go file in ``source``."""
    package: str
    duration: str
    """How long a build takes, in words."""

    def ensure(self, on_progress: OnProgress = silent) -> Path:
        """Return the program. Builds it if necessary.

        Raises:
            BuildError: the build failed.
            MissingToolError: there is no suitable Go.
        """
        target = build.cache_root().parent / self.name / self._content_hash()
        program = target / self.name
        if program.is_file():
            return program
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with build.lock(target.parent / f"{target.name}.lock", on_progress, self.name):
                if not program.is_file():
                    self._build(target, on_progress)
        except OSError as error:
            raise build.BuildError(f"{self.name} cannot be kept in {target}: {error}.") from error
        return program

    def module_folder(self, module: str) -> Path:
        """Return the source folder of a module that the program is built from. Downloads it if necessary.

        Raises:
            BuildError: Go could not find or download it.
            MissingToolError: there is no suitable Go.
        """
        answer = self._run_go("mod", "download", "-json", module)
        if answer.returncode != 0:
            raise build.BuildError(f"Go could not read {module}: {(answer.stderr or answer.stdout)[-2000:].strip()}")
        return Path(json.loads(answer.stdout)["Dir"])

    def _run_go(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        go = golang.find(golang.needed((self.source / "go.mod").read_text()))
        return subprocess.run(
            dying_with_parent(str(go), *arguments),
            cwd=self.source,
            env=os.environ | {"GOFLAGS": "", "GOWORK": "off"},  # ignore the settings of the user's own Go projects
            capture_output=True,
            text=True,
            check=False,
        )

    def _content_hash(self) -> str:
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum", self.code):
            digest.update((self.source / name).read_bytes())
        digest.update("\n".join((*FLAGS, self.package, platform.system(), platform.machine())).encode())
        return digest.hexdigest()[:20]

    def _build(self, target: Path, on_progress: OnProgress) -> None:
        on_progress(Progress(f"building {self.name} once, {self.duration}"))
        scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            answer = self._run_go("build", *FLAGS, "-o", f"{scratch}/{self.name}", self.package)
            if answer.returncode != 0:
                raise build.BuildError(
                    f"Go could not build {self.name}. Its last lines:\n{answer.stderr[-2000:].rstrip()}"
                )
            scratch.chmod(0o755)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
