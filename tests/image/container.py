"""Runs commands in the built image as a cluster with the Pod security standard `restricted` does, by runc alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.image.commands import run
from deploy.image.wheels import unpack

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "build/image/tenon.tar"
TOOLS = ("git", "umoci", "runc")
CAP_SYS_ADMIN = 21
SHARED = "/tmp/examples"
"""Where the container finds the folder `examples` of this repository."""

Body = dict[str, Any]


def unable() -> str:
    """Why this machine cannot run the image, in a sentence; empty if it can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"The test of the image needs {' and '.join(missing)}: run `apt-get install {' '.join(missing)}`."
    if not may_mount(Path("/proc/self/status").read_text()):
        return "The test of the image needs root with CAP_SYS_ADMIN, for a container."
    return stale()


def stale() -> str:
    """Why the image does not have the code of the current commit, in a sentence; empty if it does."""
    if not ARCHIVE.exists():
        return "There is no image: run `make image` first."
    commit = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    if revision(ARCHIVE) != commit:
        return f"The image is not of the commit {commit[:12]}: run `make image` again."
    return ""


def may_mount(status: str) -> bool:
    """Whether a process with this status may create a container."""
    (capabilities,) = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    return os.geteuid() == 0 and bool(int(capabilities, 16) >> CAP_SYS_ADMIN & 1)


def revision(archive: Path) -> str:
    """The commit that an image is of."""
    with tarfile.open(archive) as opened:

        def read(digest: str) -> Body:
            member = opened.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert member is not None
            body: Body = json.load(member)
            return body

        index = opened.extractfile("index.json")
        assert index is not None
        (manifest,) = json.load(index)["manifests"]
        labels = read(read(manifest["digest"])["config"]["digest"])["config"]["Labels"]
    return str(labels["org.opencontainers.image.revision"])


def hardened(config: Body, command: list[str]) -> Body:
    """The runtime's configuration with the limits of `restricted`, a read-only root, and a small /tmp."""
    none: list[str] = []
    process = config["process"] | {
        "args": command,
        "capabilities": dict.fromkeys(("bounding", "effective", "inheritable", "permitted", "ambient"), none),
        "noNewPrivileges": True,
        "terminal": False,
    }
    tmp = {
        "destination": "/tmp",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "nodev", "mode=1777", "size=64m"],
    }
    examples = {"destination": SHARED, "type": "bind", "source": str(ROOT / "examples"), "options": ["rbind", "ro"]}
    mounts = [mount for mount in config["mounts"] if mount["destination"] not in ("/tmp", "/etc/resolv.conf")]
    # Without limits of its own and a namespace for them, the container runs on machines with any version of cgroups.
    linux = {key: value for key, value in config["linux"].items() if key != "resources"}
    linux["namespaces"] = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]
    return {key: value for key, value in config.items() if key != "hooks"} | {
        "process": process,
        "root": config["root"] | {"readonly": True},
        "mounts": [*mounts, tmp, examples],
        "linux": linux,
    }


@dataclass(frozen=True)
class Container:
    """The image, unpacked for runc."""

    bundle: Path
    state: Path
    config: Body

    @classmethod
    def unpack(cls, archive: Path, folder: Path) -> Container:
        """Unpack an image into a folder."""
        layout = folder / "oci"
        unpack(archive, layout)
        (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
        tag = manifest["annotations"]["org.opencontainers.image.ref.name"]
        run("umoci", "unpack", "--image", f"{layout}:{tag}", folder / "bundle")
        config: Body = json.loads((folder / "bundle/config.json").read_text())
        return cls(folder / "bundle", folder / "runc", config)

    @property
    def files(self) -> Path:
        """The root file system of the image."""
        return self.bundle / "rootfs"

    def tenon(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point with these arguments, as a Pod's `args` do."""
        return self.run(self.config["process"]["args"][0], *arguments)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a new container."""
        (self.bundle / "config.json").write_text(json.dumps(hardened(self.config, list(command))))
        name = f"tenon-image-test-{os.getpid()}"
        runc = ["runc", "--root", str(self.state), "run", "--bundle", str(self.bundle), name]
        return subprocess.run(runc, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
