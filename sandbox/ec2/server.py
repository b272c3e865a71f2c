"""The sandbox's AWS as one process on loopback: ``python -m sandbox.ec2.server --port 5000 --state DIR``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from activities import loggers
from sandbox.ec2.admin import AdminApi
from sandbox.ec2.boot import BootPlan
from sandbox.ec2.consistency import USUAL
from sandbox.ec2.prices import read_prices
from sandbox.ec2.region import REGION, UnknownRegionError, check_region
from sandbox.ec2.world import ClusterFacts, World
from sandbox.ec2.wsgi import Front
from sandbox.ports import LOOPBACK
from worker.runtime.telemetry.log_lines import TenonFormatter

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

    from sandbox.ec2.kubelet_simulator import KubeletSimulator

log = loggers.SANDBOX_EC2


@dataclass
class Server:
    """A running sandbox EC2. ``close`` ends it."""

    endpoint: str
    world: World
    boot: BootPlan
    http: BaseWSGIServer
    thread: threading.Thread
    joiner: KubeletSimulator | None = None

    def close(self) -> None:
        """Stop the server and the joiner."""
        if self.joiner is not None:
            self.joiner.stop()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(timeout=10)


def start(
    state: Path,
    *,
    port: int = 0,
    cluster: ClusterFacts | None = None,
    kubeconfig: Path | None = None,
    nodeadm: Path | None = None,
    boot_delay: float = 8.0,
    world: World | None = None,
) -> Server:
    """Start serving on loopback; port 0 means a free port. With a kubeconfig and nodeadm, instances become nodes.

    Raises:
        OSError: the port is taken or the state folder cannot be written.
    """
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    from sandbox.ec2 import mock

    state.mkdir(parents=True, exist_ok=True)
    place = world or World(read_prices(), cluster or ClusterFacts())
    application = mock.prepare(state, place)
    boot = BootPlan(boot_delay)

    from sandbox.ec2.seed import seed

    def reset() -> None:
        with place.lock:
            mock.empty()
            place.clear()
            boot.clear()
            seed(place.cluster)
            place.events.create_queue()

    class Handler(MotoRequestHandler):  # type: ignore[misc]
        """Logs nothing, and closes the connection after each response.

        Otherwise werkzeug reads and drops what a fast client has already sent on the same connection, and hangs.
        """

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_request(self, *_: Any) -> None:
            """Do nothing, because the front records calls."""

    reset()
    admin = AdminApi(place, boot, reset)
    http = make_server(LOOPBACK, port, Front(place, application, admin), threaded=True, request_handler=Handler)
    joiner = None
    if kubeconfig is not None and nodeadm is not None:
        from sandbox.ec2.kube import KubeClient
        from sandbox.ec2.kubelet_simulator import KubeletSimulator
        from sandbox.ec2.userdata.reader import UserDataReader

        reader = UserDataReader(nodeadm)
        joiner = KubeletSimulator(KubeClient.from_kubeconfig(kubeconfig), place, boot, reader)
        admin.joiner = joiner
        joiner.start()
    thread = threading.Thread(target=http.serve_forever, name="ec2-http", daemon=True)
    thread.start()
    return Server(f"http://{LOOPBACK}:{http.server_port}", place, boot, http, thread, joiner)


def cluster_facts(name: str, kubeconfig: Path | None) -> ClusterFacts:
    """The data for DescribeCluster, from the kubeconfig's current cluster.

    Raises:
        ValueError: the kubeconfig has no cluster.
    """
    if kubeconfig is None:
        return ClusterFacts(name=name)
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8")) or {}
    clusters = content.get("clusters") or []
    if not clusters:
        raise ValueError(f"{kubeconfig} has no cluster: give the sandbox's admin kubeconfig")
    entry = clusters[0]["cluster"]
    authority = entry.get("certificate-authority-data", "")
    if not authority and entry.get("certificate-authority"):
        import base64

        authority = base64.b64encode(Path(entry["certificate-authority"]).read_bytes()).decode()
    return ClusterFacts(name=name, endpoint=entry["server"], certificate_authority=authority)


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.ec2.server", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True, help="folder for the server's files")
    parser.add_argument("--kubeconfig", type=Path, help="admin kubeconfig; without it no node joins")
    parser.add_argument("--nodeadm", type=Path, help="the program that reads user data; without it no node joins")
    parser.add_argument("--cluster", default="sandbox")
    parser.add_argument("--boot-delay", type=float, default=8.0, help="seconds from running to joining")
    parser.add_argument("--service-cidr", default="", help="the cluster's service network")
    options = parser.parse_args(arguments)
    handler = logging.StreamHandler()
    handler.setFormatter(TenonFormatter("ec2"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    loggers.library("werkzeug").setLevel(logging.WARNING)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    try:
        check_region(REGION)
        facts = cluster_facts(options.cluster, options.kubeconfig)
        if options.service_cidr:
            facts.service_cidr = options.service_cidr
        server = start(
            options.state,
            port=options.port,
            world=World(read_prices(), facts, delays=USUAL),
            kubeconfig=options.kubeconfig,
            nodeadm=options.nodeadm,
            boot_delay=options.boot_delay,
        )
    except (OSError, ValueError, UnknownRegionError) as error:
        print(f"The sandbox's EC2 cannot start: {error}", file=sys.stderr)
        return 2
    log.info("The server serves EC2", extra={"endpoint": server.endpoint})
    done.wait()
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
