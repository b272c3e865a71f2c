"""PID 1 of the node's namespaces: ``python -m sandbox.kubelet.inside --state FOLDER``.

It makes the mounts and the network, writes a line to standard output, and starts containerd and the kubelet. It reaps
the processes that containers leave, and ends when containerd or the kubelet ends, which ends everything here.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from sandbox.kubelet import ADDRESS, NODE, cgroups, configuration, images, programs
from sandbox.kubelet.configuration import Files
from sandbox.kubelet.images import SOCKET
from sandbox.kubelet.programs import NodePrograms
from sandbox.layout import SERVICE_IP, Layout

START_SECONDS = 60.0
POLL_SECONDS = 0.05
KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""What a kubelet writes to settings of the whole machine. Here it finds files with its values instead."""
SHIELDED = ("/var/lib", "/var/log")
"""Folders of the machine with state of the programs that no option moves. Here they write to a layer in memory."""


def mount(*arguments: str | Path) -> None:
    """Run mount.

    Raises:
        CalledProcessError: it failed.
    """
    subprocess.run(["mount", *map(str, arguments)], check=True)


def ip(arguments: str) -> None:
    """Run ip.

    Raises:
        CalledProcessError: it failed.
    """
    subprocess.run(["ip", *arguments.split()], check=True)


def make_network() -> None:
    """An interface with the node's address, a route that nothing answers on, and the address of the API's Service."""
    ip("link set lo up")
    ip("link add node0 type veth peer name node1")
    ip(f"addr add {ADDRESS}/24 dev node0")
    ip("link set node0 up")
    ip("link set node1 up")
    gateway = ADDRESS.rsplit(".", 1)[0] + ".254"
    ip(f"route add default via {gateway}")  # the kubelet and the network plugins look for one
    ip(f"addr add {SERVICE_IP}/32 dev lo")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def make_mounts(node: Path) -> None:
    """Mounts of this namespace's own, shared with those that the programs here create."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for folder in SHIELDED:
        upper, work = (Path("/run/layers", kind, folder[1:]) for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        mount("-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "overlay", folder)
    for setting, value in KERNEL_SETTINGS.items():
        original = Path("/proc/sys", setting)
        if original.exists():
            stand_in = node / "settings" / setting
            stand_in.parent.mkdir(parents=True, exist_ok=True)
            stand_in.write_text(value)
            mount("--bind", stand_in, original)
    mount("--make-rshared", "/")


def start_containerd(layout: Layout, files: Files, node_programs: NodePrograms) -> subprocess.Popen[bytes]:
    """Start containerd, and return when it has the image of pause.

    Raises:
        OSError: it does not listen.
        CalledProcessError: it did not take the image.
    """
    folders = (node_programs.packages / "usr/bin", node_programs.packages / "usr/sbin")  # it looks for its shim on PATH
    environment = os.environ | {"PATH": ":".join([*map(str, folders), os.environ.get("PATH", os.defpath)])}
    with layout.log("containerd").open("wb") as log:
        process = subprocess.Popen(
            [node_programs.containerd, "--config", files.containerd],
            stdout=log,
            stderr=log,
            env=environment,
        )
    deadline = time.monotonic() + START_SECONDS
    while not listens():
        if process.poll() is not None or time.monotonic() > deadline:
            raise OSError(f"containerd does not serve; its log: {layout.log('containerd')}")
        time.sleep(POLL_SECONDS)
    taking = images.import_command(node_programs.ctr, SOCKET, files.pause_archive)
    subprocess.run(taking, check=True, stdout=subprocess.DEVNULL)
    return process


def listens() -> bool:
    """Whether containerd accepts connections."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(SOCKET)
        except OSError:
            return False
    return True


def reap_until_one_ends(essential: dict[int, str]) -> str:
    """Reap every process that ends. Returns how one of ``essential`` ended, in words."""
    while True:
        pid, status = os.wait()
        if pid in essential:
            code = os.waitstatus_to_exitcode(status)
            return f"{essential[pid]} ended with {f'signal {-code}' if code < 0 else f'exit status {code}'}"


def main() -> int:
    """Run the node. Returns the exit status: it only ends after a failure."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.kubelet.inside", description=__doc__)
    parser.add_argument("--state", required=True, type=Path)
    layout = Layout.at(parser.parse_args().state)
    node_programs = programs.ensure()
    files = configuration.write(layout, node_programs, cgroups.name(layout.root))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # PID 1 ignores signals that it does not handle
    socket.sethostname(NODE)
    make_mounts(layout.node)
    make_network()
    print("the network is up", flush=True)
    containerd = start_containerd(layout, files, node_programs)
    kubelet = subprocess.Popen(configuration.kubelet_command(layout, files, node_programs.kubelet))
    how = reap_until_one_ends({containerd.pid: "containerd", kubelet.pid: "the kubelet"})
    print(how, file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
