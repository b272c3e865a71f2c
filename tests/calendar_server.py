"""A web server on loopback that serves calendars to tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def calendar_text(*times: tuple[datetime, datetime]) -> str:
    """An iCalendar with events at these times."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//tests//tests//EN"]
    for number, (start, end) in enumerate(times):
        begin, close = (at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ") for at in (start, end))
        lines += ["BEGIN:VEVENT", f"UID:{number}", f"DTSTART:{begin}", f"DTEND:{close}", "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


@asynccontextmanager
async def serving_calendars(answer: Answer) -> AsyncIterator[str]:
    """Yield the address of a server that answers every request so."""
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
