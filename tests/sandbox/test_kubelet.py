"""The parts of the real node, without a node."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from cli.sandbox import app
from sandbox import build, helm
from sandbox.kubelet import cgroups, configuration, forwarders, images, machine, release, services
from sandbox.kubelet.cleaning import clean
from sandbox.kubelet.images import CONTAINERD_NAME, PAUSE_IMAGE
from sandbox.kubelet.programs import KUBELET, NodePrograms
from sandbox.layout import Layout

V1 = """\
24 30 0:6 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=4k
35 32 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
36 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
37 32 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""


def test_hierarchies_are_read_with_their_controllers() -> None:
    hierarchies = cgroups.hierarchies(V1, "cgroup")
    assert [(str(root), sorted(options - {"rw"})) for root, options in hierarchies] == [
        ("/sys/fs/cgroup/cpu,cpuacct", ["cpu", "cpuacct"]),
        ("/sys/fs/cgroup/memory", ["memory"]),
    ]
    assert [str(root) for root, _ in cgroups.hierarchies(V1, "cgroup2")] == ["/sys/fs/cgroup/unified"]


def test_two_sandboxes_have_different_cgroups(tmp_path: Path) -> None:
    assert cgroups.name(tmp_path / "a") != cgroups.name(tmp_path / "b")


def test_a_machine_without_the_controllers_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(V1)
    monkeypatch.setattr(cgroups, "MOUNTS", mounts)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "PROGRAMS", {})
    expected = "A real kubelet needs cgroup v1, and this machine mounts no hierarchy with cpuset, devices, pids."
    assert machine.unable() == expected


def test_a_folder_whose_path_is_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    most = Path("/" + "d" * 65)
    assert machine.too_deep(most) == ""
    assert len(str(most / machine.LONGEST_SOCKET)) == machine.SOCKET_LIMIT
    assert "at most 66 bytes" in machine.too_deep(Path(f"{most}d"))


def test_up_with_a_kubelet_as_another_user_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    answer = CliRunner().invoke(app, ["up", "--kubelet", "--state", str(tmp_path / "state")])
    assert answer.exit_code == 2
    assert answer.stderr == "error: A real kubelet needs root: run this command as root.\n"
    assert not (tmp_path / "state").exists()


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "PROGRAMS", {"no-such-ip": "iproute2", "no-such-mount": "mount"})
    expected = "A real kubelet needs `no-such-ip`, `no-such-mount`: run `apt-get install iproute2 mount`."
    assert machine.unable() == expected


def test_the_kubelet_is_a_build_of_its_own() -> None:
    assert build.cache_root(KUBELET).parent == build.cache_root().parent
    assert build.cache_root(KUBELET) != build.cache_root()
    assert build.content_hash(builds=KUBELET) != build.content_hash()


def test_cleaning_where_no_node_was_does_nothing(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    clean(layout)
    layout.node.mkdir()
    (layout.node / "left").touch()
    clean(layout)
    assert not layout.node.exists()


def test_the_image_of_pause_holds_the_program_and_its_digest(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    images.write_pause(program, tmp_path / "pause.tar")
    with tarfile.open(tmp_path / "pause.tar") as archive:
        contents = {name: opened.read() for name in archive.getnames() if (opened := archive.extractfile(name))}
        (manifest,) = json.loads(contents["manifest.json"])
        assert manifest["RepoTags"] == [PAUSE_IMAGE]
        assert json.loads(contents[manifest["Config"]])["rootfs"]["diff_ids"][0].startswith("sha256:")
        with tarfile.open(fileobj=io.BytesIO(contents[manifest["Layers"][0]])) as layer:
            assert layer.getmember("pause").mode == 0o755


def test_an_archive_without_a_named_image_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"manifests": [{"annotations": {CONTAINERD_NAME: "localhost/tenon:1"}}]}))
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(index, "index.json")
    assert images.name_in(tmp_path / "image.tar") == "localhost/tenon:1"
    with pytest.raises(ValueError, match="is not an OCI archive with one named image"):
        images.name_in(index)


def test_containerd_and_kubelet_keep_everything_in_the_state_folder(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path / "state")
    programs = NodePrograms(Path("/programs/kubelet"), Path("/programs/pause"), Path("/packages"))
    files = configuration.write(layout, programs, "tenon-sandbox-1")
    kubelet = yaml.safe_load(files.kubelet.read_text())
    assert (kubelet["cgroupRoot"], kubelet["failCgroupV1"]) == ("/tenon-sandbox-1", False)
    paths = [kubelet["podLogsDir"], kubelet["volumePluginDir"], kubelet["resolvConf"], kubelet["tlsCertFile"]]
    command = configuration.kubelet_command(layout, files, programs.kubelet)
    paths += [word.split("=")[1] for word in command if word.startswith(("--root-dir", "--cert-dir", "--kubeconfig"))]
    assert all(path.startswith(str(layout.root)) for path in paths)
    assert f'root = "{layout.node}/containerd"' in files.containerd.read_text()
    assert 'BinaryName = "/packages/usr/sbin/runc"' in files.containerd.read_text()


@pytest.mark.parametrize(
    ("head", "target"),
    [
        ("CONNECT 10.251.0.2:8443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", ("10.251.0.2", 8443)),
        ("CONNECT [::1]:443 HTTP/1.1\r\n\r\n", ("::1", 443)),
    ],
)
def test_the_target_of_a_connect_is_read(head: str, target: tuple[str, int]) -> None:
    assert forwarders.connect_target(head) == target


@pytest.mark.parametrize("head", ["GET / HTTP/1.1\r\n\r\n", "CONNECT 10.0.0.1 HTTP/1.1\r\n\r\n", "\r\n\r\n"])
def test_other_requests_are_refused(head: str) -> None:
    with pytest.raises(ValueError, match=r"CONNECT|unpack|literal"):
        forwarders.connect_target(head)


@pytest.mark.integration
def test_the_chart_takes_the_values_of_the_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(release.values("localhost/tenon:0.1.0", "https://127.0.0.1:1")))
    documents = list(yaml.safe_load_all(helm.template(release.CHART, values=[file])))
    (deployment,) = [document for document in documents if document and document["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "localhost/tenon:0.1.0"
    assert "podAntiAffinity" not in spec["affinity"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "sandbox.tenon.sh/role": "real"}


@pytest.mark.integration
async def test_pid_one_reaps_orphans_until_an_essential_process_ends() -> None:
    """In a process of its own, because it reaps every child."""
    script = (
        "import subprocess, sys\n"
        "from sandbox.kubelet.inside import reap_until_one_ends\n"
        "subprocess.Popen(['true'])\n"
        "essential = subprocess.Popen(['sh', '-c', 'exit 3'])\n"
        "print(reap_until_one_ends({essential.pid: 'the kubelet'}))\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "the kubelet ended with exit status 3\n"


def slice_of(name: str, ready: bool, address: str) -> dict[str, object]:
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-x", "namespace": "tenon", "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "https-webhook", "port": 9443}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    }


def test_a_services_address_leads_to_a_ready_endpoint_of_its_port() -> None:
    ports = [{"name": "http-metrics", "port": 8080}, {"name": "https-webhook", "port": 8443}]
    service = {
        "kind": "Service",
        "metadata": {"name": "tenon", "namespace": "tenon"},
        "spec": {"clusterIP": "10.96.0.7", "ports": ports},
    }
    slices = [slice_of("other", True, "10.251.0.9"), slice_of("tenon", False, "10.251.0.2")]
    assert services.endpoint([service, *slices], "10.96.0.7", 8443) is None
    slices.append(slice_of("tenon", True, "10.251.0.3"))
    assert services.endpoint([service, *slices], "10.96.0.7", 8443) == ("10.251.0.3", 9443)
    assert services.endpoint([service, *slices], "10.96.0.7", 8080) is None
    assert services.endpoint([service, *slices], "10.96.0.8", 8443) is None
    assert (services.is_service("10.96.0.7"), services.is_service("10.251.0.3")) == (True, False)
