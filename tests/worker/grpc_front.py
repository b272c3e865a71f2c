"""A gRPC server in front of another one: forwards each call as bytes, denies some, and loses answers on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio


@dataclass
class Loss:
    """Loses the next answer of ``method`` that contains ``text``, as a connection does that breaks without a sign.

    The server considers the answer as delivered. The client waits for it until its own deadline.
    """

    method: str
    text: bytes
    armed: bool = False
    lost: int = 0

    def takes(self, method: str, answer: bytes) -> bool:
        """Whether this answer is lost."""
        if not (self.armed and self.method in method and self.text in answer):
            return False
        self.armed = False
        self.lost += 1
        return True


class _PassOn:
    """A generic handler: a server asks it only for `service`."""

    def __init__(self, channel: grpc.aio.Channel, denied: dict[str, grpc.StatusCode], loss: Loss | None) -> None:
        self._channel = channel
        self._denied = denied
        self._loss = loss

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._handler(call.method))

    def _handler(self, method: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def handle(request: bytes, context: Any) -> bytes:
            for denied, status in self._denied.items():
                if denied in method:
                    await context.abort(status, "Request unauthorized.")
            try:
                answer: bytes = await self._channel.unary_unary(method)(request, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                await context.abort(error.code(), error.details() or "")
            if self._loss is not None and self._loss.takes(method, answer):
                await asyncio.Event().wait()
            return answer

        return handle


@asynccontextmanager
async def front(
    address: str, denied: dict[str, grpc.StatusCode] | None = None, loss: Loss | None = None
) -> AsyncIterator[str]:
    """The address of a server that forwards calls to ``address``, except methods whose path contains a denied text."""
    async with grpc.aio.insecure_channel(address) as channel:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_PassOn(channel, denied or {}, loss),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
