"""Whether this machine can run a real node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sandbox.kubelet import cgroups

PROGRAMS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""The Debian package of each program that the node needs."""
LONGEST_SOCKET = "node/kubelet/device-plugins/kubelet.sock"
"""The longest name of a socket that the kubelet creates below the sandbox's folder."""
SOCKET_LIMIT = 107
"""The bytes that Linux takes as the path of a socket."""
NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts")


def unable() -> str:
    """Why this machine cannot run a real node, in a sentence; empty if it can."""
    if sys.platform != "linux":
        return "A real kubelet needs Linux."
    if os.geteuid() != 0:
        return "A real kubelet needs root: run this command as root."
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        join = " ".join(sorted({PROGRAMS[program] for program in absent}))
        return f"A real kubelet needs {', '.join(f'`{item}`' for item in absent)}: run `apt-get install {join}`."
    if lacking := cgroups.missing():
        return f"A real kubelet needs cgroup v1, and this machine mounts no hierarchy with {', '.join(lacking)}."
    if shut := [str(root) for root, _ in cgroups.mounted() if not _writable(root)]:
        return f"A real kubelet needs to create cgroups, and {shut[0]} is read-only."
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"A real kubelet needs namespaces of its own, and this machine refuses them: {tried.stderr.strip()}."
    return ""


def too_deep(root: Path) -> str:
    """Why the node of a sandbox in this folder cannot run, in a sentence; empty if it can."""
    most = SOCKET_LIMIT - len(f"/{LONGEST_SOCKET}")
    if len(os.fsencode(root)) <= most:
        return ""
    return f"A real kubelet needs a state folder whose path has at most {most} bytes, for its sockets: {root} has more."


def _writable(folder: os.PathLike[str]) -> bool:
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY
