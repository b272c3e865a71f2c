"""What each process is told, checked without starting one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from sandbox import audit, kwok
from sandbox.certificates import Authority
from sandbox.cluster import Sandbox
from sandbox.components import MANIFESTS, Component, Options, Ports, components
from sandbox.errors import SandboxError
from sandbox.kubeconfig import with_certificate
from sandbox.layout import Layout
from sandbox.ports import OWN_RANGE, free_ports, is_free, port_range
from sandbox.status import Addresses
from sandbox.temporal import VARIABLE as TEMPORAL_VARIABLE
from sandbox.temporal import TemporalKind, programs
from workflows.names import SEARCH_ATTRIBUTES

pytestmark = pytest.mark.integration


def rendered(tmp_path: Path, options: Options | None = None) -> dict[str, Component]:
    parts = components(Layout.at(tmp_path), Ports.free(), Path("/bin"), Path("/temporal"), options or Options())
    return {part.name: part for part in parts}


def test_every_component_comes_after_what_it_needs(tmp_path: Path) -> None:
    names = {MANIFESTS}
    for name, part in rendered(tmp_path).items():
        assert set(part.after) <= names
        names.add(name)


def test_clients_are_not_slowed_to_their_defaults(tmp_path: Path) -> None:
    parts = rendered(tmp_path)
    for name in ("kube-scheduler", "kube-controller-manager"):
        assert {"--kube-api-qps=1000", "--kube-api-burst=2000", "--leader-elect=false"} <= set(parts[name].argv)


def test_nothing_listens_beyond_loopback(tmp_path: Path) -> None:
    for part in rendered(tmp_path).values():
        assert "0.0.0.0" not in " ".join(part.argv)
        assert part.ready.split("://")[1].startswith("127.0.0.1:")


def test_temporal_knows_the_search_attributes_with_their_types(tmp_path: Path) -> None:
    words = [word for word in rendered(tmp_path)["temporal"].argv if word.startswith("--search-attribute=")]
    assert len(words) == len(SEARCH_ATTRIBUTES) == 14
    for expected in ("TenonStage=Keyword", "TenonBlocked=Bool", "TenonExpires=Datetime"):
        assert f"--search-attribute={expected}" in words


def test_temporal_keeps_what_it_knows_while_the_sandbox_runs_and_longer_when_asked(tmp_path: Path) -> None:
    """A fresh file for each sandbox: what `--keep-history` kept is not touched by a run without it."""
    layout = Layout.at(tmp_path)
    fresh = rendered(tmp_path)["temporal"].argv
    argv = rendered(tmp_path, Options(keep_history=True))["temporal"].argv
    assert f"--db-filename={layout.temporal_fresh_db}" in fresh
    assert f"--db-filename={layout.temporal_db}" in argv
    assert "--sqlite-pragma=synchronous=off" in fresh
    assert not any(word.startswith("--sqlite-pragma") for word in argv), "kept histories outlive the machine's end"
    layout.prepare()
    layout.temporal_fresh_db.touch()
    layout.temporal_db.touch()
    layout.prepare()
    assert not layout.temporal_fresh_db.exists()
    assert layout.temporal_db.exists()


def test_the_boot_delay_reaches_ec2(tmp_path: Path) -> None:
    assert "--boot-delay=2.5" in rendered(tmp_path, Options(boot_delay=2.5))["ec2"].argv


def test_requests_are_logged_only_on_request(tmp_path: Path) -> None:
    def flags(options: Options) -> list[str]:
        return [word for word in rendered(tmp_path, options)["kube-apiserver"].argv if word.startswith("--audit")]

    layout = Layout.at(tmp_path)
    assert flags(Options()) == []
    assert f"--audit-log-path={layout.audit_log}" in flags(Options(audit=True))
    assert f"--audit-policy-file={layout.audit_policy}" in flags(Options(audit=True))
    assert yaml.safe_load(audit.POLICY)["kind"] == "Policy"


def test_kwok_gets_documents_and_waits_for_the_joiner() -> None:
    documents = list(yaml.safe_load_all(kwok.config()))
    options = documents[0]["options"]
    assert options["manageNodesWithAnnotationSelector"] == f"{kwok.NODE_ANNOTATION}=fake"
    assert options["nodeLeaseDurationSeconds"] == 0
    stages = {stage["metadata"]["name"]: stage["spec"]["selector"] for stage in documents[1:]}
    assert stages["pod-start"]["matchAnnotations"] == {kwok.ADMITTED_ANNOTATION: "true"}
    for name in ("node-ready", "node-heartbeat"):
        assert stages[name]["matchAnnotations"] == {kwok.KUBELET_ANNOTATION: "ready"}


def test_ports_are_different_and_free_and_a_taken_one_is_seen() -> None:
    ports = free_ports(8)
    assert len(set(ports)) == 8
    assert all(port in port_range() for port in ports)
    with socket.socket() as occupancy:
        occupancy.bind(("127.0.0.1", ports[0]))
        occupancy.listen()
        assert not is_free(ports[0])


def test_too_few_ports_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.ports.is_free", lambda _: False)
    with pytest.raises(OSError, match="only 0 of 3 ports"):
        free_ports(3)


def test_sandboxes_that_start_at_once_have_ranges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_RANGE, "24000-24039")
    assert set(free_ports(4)) <= set(range(24_000, 24_040))
    for none in ("24000", "24039-24000", "0-5", "a-b", "60000-70000"):
        monkeypatch.setenv(OWN_RANGE, none)
        with pytest.raises(OSError, match=f'{OWN_RANGE} is "{none}": write the first and the last port'):
            free_ports(1)


def test_keys_are_for_this_user_only(tmp_path: Path) -> None:
    authority = Authority()
    path = tmp_path / "admin.kubeconfig"
    with_certificate(path, "https://127.0.0.1:1", authority.certificate, authority.client("admin", "system:masters"))
    authority.server(["localhost"], ["127.0.0.1"]).write(tmp_path, "server")
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_new_cluster_finds_nothing_of_the_last_one_but_its_logs(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path / "state")
    layout.prepare()
    (layout.etcd / "member").mkdir()
    layout.worker_kubeconfig.write_text("a dead cluster's")
    layout.log("etcd").write_text("why it died")
    (layout.root / "notes.txt").write_text("a person's own file")
    layout.prepare()
    assert list(layout.etcd.iterdir()) == []
    assert not layout.worker_kubeconfig.exists()
    assert layout.log("etcd").exists()
    assert (layout.root / "notes.txt").exists()
    assert layout.root.stat().st_mode & 0o077 == 0


def test_each_replica_of_the_worker_has_ports_of_its_own_that_stay(tmp_path: Path) -> None:
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2", temporal_ui="u")
    sandbox = Sandbox(Layout.at(tmp_path), addresses)
    names = ("METRICS_PORT", "HEALTH_PROBE_PORT", "WEBHOOK_PORT")
    first, second = ([sandbox.worker_env(replica)[name] for name in names] for replica in (0, 1))
    assert len({*first, *second}) == 2 * len(names)
    assert [sandbox.worker_env()[name] for name in names] == first
    other = sandbox.worker_env(replica=1, kubeconfig=tmp_path / "proxy.kubeconfig")
    assert other["KUBECONFIG"] == str(tmp_path / "proxy.kubeconfig")
    assert [other[name] for name in names] == second


def test_temporal_on_postgresql_waits_for_its_database_and_keeps_what_it_knows_as_long_as_the_dev_server(
    tmp_path: Path,
) -> None:
    layout = Layout.at(tmp_path)
    fresh = rendered(tmp_path, Options(temporal=TemporalKind.POSTGRESQL))
    assert fresh["temporal"].after == ("postgresql",)
    assert f"--folder={layout.fresh_postgresql}" in fresh["postgresql"].argv
    assert "postgresql" not in rendered(tmp_path)
    components = rendered(tmp_path, Options(temporal=TemporalKind.POSTGRESQL, keep_history=True))
    assert {f"--folder={layout.postgresql}", "--keep"} <= set(components["postgresql"].argv)
    assert f"--folder={layout.postgresql}" in components["temporal"].argv


def test_an_unknown_temporal_and_a_missing_postgresql_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TEMPORAL_VARIABLE, "mysql")
    with pytest.raises(SandboxError, match=f"^{TEMPORAL_VARIABLE} is mysql: set dev or postgresql, or leave it out.$"):
        Sandbox.start(tmp_path)
    monkeypatch.setenv(TEMPORAL_VARIABLE, "postgresql")
    monkeypatch.setattr(programs, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"^Temporal on PostgreSQL needs PostgreSQL: run `apt-get install postgres"):
        Sandbox.start(tmp_path)


def test_the_newest_postgresql_of_debian_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("9", "15", "common"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    monkeypatch.setattr(programs, "DEBIAN", tmp_path)
    assert programs.postgresql() == tmp_path / "15" / "bin"


def test_the_garbage_collector_starts_when_all_kinds_are_served(tmp_path: Path) -> None:
    """It would know a kind that comes later only after half a minute, and orphan none of its objects until then."""
    assert MANIFESTS in rendered(tmp_path)["kube-controller-manager"].after
