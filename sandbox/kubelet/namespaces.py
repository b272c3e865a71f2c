"""Starts a program as PID 1 of new namespaces, and makes sockets in its network namespace from outside.

A socket belongs to the network namespace in which it was made, wherever it is used afterwards. So one process can
listen in the node's network and connect in the machine's, or the other way around.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from sandbox.kubelet.machine import NAMESPACES
from sandbox.parent_death import dying_with_parent

CLONE_NEWNET = 0x40000000
STOP_SECONDS = 3.0


class Network:
    """The network namespace of a process."""

    def __init__(self, pid: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists from Python 3.12 on
        self._ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._theirs = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def socket(self) -> socket.socket:
        """A new TCP socket in that namespace, for use in an event loop."""
        with self._entered():
            output = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        output.setblocking(False)
        return output

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """This thread is in the namespace meanwhile. The caller must not await."""
        self._enter(self._theirs)
        try:
            yield
        finally:
            self._enter(self._ours)

    def _enter(self, namespace: int) -> None:
        if self._libc.setns(namespace, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter a network namespace: {os.strerror(number)}")


class Namespaces:
    """A running program as PID 1 of its own mount, network, process, IPC and UTS namespaces.

    If it ends, the kernel ends all processes in them. It ends with this process, for whatever reason this one ends.
    """

    def __init__(self, process: asyncio.subprocess.Process, pid: int) -> None:
        self._process = process
        self.pid = pid
        """The process ID of PID 1 outside."""
        self.network = Network(pid)

    @classmethod
    async def start(cls, *command: str) -> Namespaces:
        """Start the program and return when it has written its first line to standard output.

        Raises:
            OSError: it ended before.
        """
        unshare = ("/usr/bin/unshare", *NAMESPACES, "--propagation=private", "--mount-proc", "--fork", "--kill-child")
        process = await asyncio.create_subprocess_exec(
            *dying_with_parent(*unshare, *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # signals for the component's group must not end it before its time
        )
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise OSError(f"PID 1 of the node ended with status {await process.wait()} before its network was up")
        (child,) = psutil.Process(process.pid).children()
        return cls(process, child.pid)

    async def ended(self) -> int:
        """Wait until the program has ended. Returns its exit status."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End everything in the namespaces: PID 1 is the last that ends."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, number)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
