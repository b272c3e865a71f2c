"""A gRPC server before another one: passes each call on as bytes, and denies the services that a test names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio


class _PassOn(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.aio.Channel, denied: dict[str, grpc.StatusCode]) -> None:
        self._channel = channel
        self._denied = denied

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
            return answer

        return handle


@asynccontextmanager
async def front(address: str, denied: dict[str, grpc.StatusCode]) -> AsyncIterator[str]:
    """The address of a server that passes calls on to ``address``, but for methods whose path holds a denied text."""
    async with grpc.aio.insecure_channel(address) as channel:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_PassOn(channel, denied),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
