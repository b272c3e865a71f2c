"""HTTP servers that IPv4 and IPv6 reach alike: the Pods of some clusters have addresses of one kind only."""

from __future__ import annotations

import socket
from http.server import ThreadingHTTPServer
from socketserver import TCPServer


class DualStackServer(ThreadingHTTPServer):
    """Listens on all addresses of a port; on those of IPv4 alone where the kernel knows no others."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        """Take the port; unlike the base, without asking a name server who this is."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
