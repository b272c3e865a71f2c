"""HTTP servers that listen on IPv4 and IPv6, because the Pods of some clusters have addresses of only one family."""

from __future__ import annotations

import socket
from http.server import ThreadingHTTPServer
from socketserver import TCPServer


class DualStackServer(ThreadingHTTPServer):
    """Listens on all addresses of a port, or only on IPv4 if the kernel has no dual-stack sockets."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        """Bind the port. Unlike the base class, this does not look up the host's name in DNS."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
