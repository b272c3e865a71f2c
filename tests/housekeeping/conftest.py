"""The sandbox's EC2 and a provider on it, as the tests of EC2 have them."""

from tests.ec2.conftest import (
    _undo_injections,
    admin,
    clients,
    describes_at_once,
    few_types,
    provider,
    ready_class,
    server,
)

__all__ = [
    "_undo_injections",
    "admin",
    "clients",
    "describes_at_once",
    "few_types",
    "provider",
    "ready_class",
    "server",
]
