"""Takes containerd, runc and the network plugins from Debian's packages, without installing anything on the machine."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from sandbox import build
from sandbox.progress import OnProgress, Progress

PACKAGES = ("containerd", "runc", "containernetworking-plugins")
PROGRAMS = ("usr/bin/containerd", "usr/bin/ctr", "usr/sbin/runc", "usr/lib/cni/bridge")
"""Files that must be there for the unpacked packages to be complete."""


def ensure(on_progress: OnProgress) -> Path:
    """Return the folder with the unpacked packages. Downloads them if necessary.

    Raises:
        BuildError: apt could not download them.
    """
    target = build.cache_root().parent / "debian" / _key()
    if _complete(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with build.lock(target.parent / f"{target.name}.lock", on_progress, "the node's packages"):
            if not _complete(target):
                _download(target, on_progress)
    except OSError as error:
        raise build.BuildError(f"The packages of the node cannot be kept in {target}: {error}.") from error
    return target


def _key() -> str:
    release = platform.freedesktop_os_release()
    parts = (*PACKAGES, release.get("ID", ""), release.get("VERSION_ID", ""), platform.machine())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PROGRAMS)


def _download(target: Path, on_progress: OnProgress) -> None:
    on_progress(Progress(f"downloading {', '.join(PACKAGES)} from Debian"))
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        scratch.chmod(0o755)
        # apt warns that it downloads as root, because its own user may not write here.
        _run("apt-get", "download", "-o", "APT::Sandbox::User=root", *PACKAGES, folder=scratch)
        for file in sorted(scratch.glob("*.deb")):
            _run("dpkg-deb", "--extract", str(file), str(scratch), folder=scratch)
            file.unlink()
        shutil.rmtree(target, ignore_errors=True)  # a cache that lost a file
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise build.BuildError(
            f"`{' '.join(command)}` failed; run `apt-get update` if it does not find a package: {done.stderr.strip()}"
        )
