"""Which servers are Temporal Cloud, which has commands of its own to administer namespaces."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.service import TLSConfig

_DOMAINS = (".tmprl.cloud", ".api.temporal.io")


def is_cloud_host(host: str) -> bool:
    """Whether a host name without its port is one of Temporal Cloud."""
    return host.endswith(_DOMAINS)


def is_cloud(client: Client) -> bool:
    """Whether the client's server is Temporal Cloud. By PrivateLink, only the name in its certificate shows it."""
    config = client.service_client.config
    certified_name = config.tls.domain if isinstance(config.tls, TLSConfig) else None
    return is_cloud_host(config.target_host.rpartition(":")[0]) or is_cloud_host(certified_name or "")
