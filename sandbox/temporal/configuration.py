"""The configuration of temporal-server, as plain data: one server that runs all four services on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.ports import LOOPBACK
from sandbox.temporal import DYNAMIC_CONFIG
from sandbox.temporal.postgresql import USER

FRONTEND = "frontend"
SERVICES = (FRONTEND, "history", "matching", "worker")
PLUGIN = "postgres12"
DATABASES = {"temporal": "temporal", "visibility": "temporal_visibility"}
"""Each schema, and the database that holds it."""
SHARDS = 4
CONNECTIONS = 20

Document = dict[str, Any]


@dataclass(frozen=True)
class Listener:
    """The ports of a service: for calls, and for finding the others."""

    grpc: int
    membership: int


def configuration(listeners: Mapping[str, Listener], postgresql: int, password: str, dynamic: Path) -> Document:
    """The configuration of a server with these services, on the PostgreSQL at this port."""
    frontend = f"{LOOPBACK}:{listeners[FRONTEND].grpc}"
    stores = zip(("default", "visibility"), DATABASES.values(), strict=True)
    return {
        "log": {"stdout": True, "level": "warn"},
        "persistence": {
            "defaultStore": "default",
            "visibilityStore": "visibility",
            "numHistoryShards": SHARDS,
            "datastores": {store: {"sql": _sql(name, postgresql, password)} for store, name in stores},
        },
        "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": LOOPBACK}},
        "services": {service: {"rpc": _rpc(listener)} for service, listener in listeners.items()},
        "clusterMetadata": {
            "enableGlobalNamespace": False,
            "failoverVersionIncrement": 10,
            "masterClusterName": "active",
            "currentClusterName": "active",
            "clusterInformation": {
                "active": {
                    "enabled": True,
                    "initialFailoverVersion": 1,
                    "rpcName": FRONTEND,
                    "rpcAddress": frontend,
                }
            },
        },
        "dcRedirectionPolicy": {"policy": "noop"},
        "publicClient": {"hostPort": frontend},
        "dynamicConfigClient": {"filepath": str(dynamic), "pollInterval": "60s"},
    }


def dynamic_config() -> str:
    """The file with the settings that the dev server gets on its command line. Nothing asks for newer versions."""
    entries = dict(value.split("=", 1) for value in DYNAMIC_CONFIG)
    values = {key: yaml.safe_load(value) for key, value in entries.items()}
    values |= {"frontend.enableServerVersionCheck": False}
    return yaml.safe_dump({key: [{"value": value}] for key, value in values.items()})


def _rpc(listener: Listener) -> Document:
    return {"grpcPort": listener.grpc, "membershipPort": listener.membership, "bindOnIP": LOOPBACK}


def _sql(database: str, port: int, password: str) -> Document:
    return {
        "pluginName": PLUGIN,
        "databaseName": database,
        "connectAddr": f"{LOOPBACK}:{port}",
        "connectProtocol": "tcp",
        "user": USER,
        "password": password,
        "maxConns": CONNECTIONS,
        "maxIdleConns": CONNECTIONS,
        "maxConnLifetime": "1h",
    }
