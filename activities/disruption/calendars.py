"""Downloads the iCalendars of DisruptionFreezes.

Who may write a DisruptionFreeze chooses the URL, and who owns the URL chooses the answer. So the worker reads from no
address of its own machine, follows few redirects, reads a bounded answer, and evaluates it in a process with limits.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from activities.disruption.calendar_process import OUT_OF_MEMORY, TOO_MUCH
from tenon.apis.disruptionfreeze import FreezeCalendar
from tenon.disruption.freezes.calendar_times import CalendarTimes, Event
from tenon.errors import TenonError

ANSWER_WITHIN = 20.0
"""Seconds for a download, with all its redirects."""
EVALUATED_WITHIN = 60.0
"""Seconds for the process. It limits its own work, but it may have to wait for the CPU."""
MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 3
REDIRECTS = frozenset({301, 302, 303, 307, 308})
ALLOWED_BY = "INSECURE_CALENDARS"
"""The setting that allows plain HTTP and loopback addresses."""
_NAT64 = IPv6Network("64:ff9b::/96")
_AMAZON = IPv6Network("fd00:ec2::/32")
"""IPv6 addresses of EC2's own services on an instance, such as its metadata."""
_WORD = 2**32
OVER_A_LIMIT = frozenset({-signal.SIGXCPU, -signal.SIGKILL, OUT_OF_MEMORY})
"""How the process ends at its limits, or if the machine has too little memory."""

Address = IPv4Address | IPv6Address
CalendarReader = Callable[[FreezeCalendar, datetime], Awaitable[CalendarTimes]]
"""Returns the times of a calendar. Raises UnreadableCalendarError."""


class UnreadableCalendarError(TenonError):
    """A calendar that cannot be read. The message is one sentence, and names the host but not the URL."""


class Calendars:
    """Reads calendars."""

    def __init__(self, *, insecure: bool = False) -> None:
        """``insecure``: whether plain HTTP and loopback addresses are allowed."""
        self._insecure = insecure

    async def read(self, calendar: FreezeCalendar, now: datetime) -> CalendarTimes:
        """Return the times of the events that have not ended.

        Raises:
            UnreadableCalendarError: it cannot be downloaded, or is no calendar.
        """
        host = _host(calendar.url)
        content = await self._download(calendar.url, host)
        answer = await _evaluated(content, calendar.timezone, now)
        if problem := answer.get("problem"):
            raise UnreadableCalendarError(f"The calendar of {host} {problem}")
        events = tuple(Event(*map(datetime.fromisoformat, pair)) for pair in answer["events"])
        return CalendarTimes(events, datetime.fromisoformat(answer["knownUntil"]), calendar.timezone)

    async def _download(self, url: str, host: str) -> bytes:
        connector = aiohttp.TCPConnector(resolver=_Resolver(self._insecure), use_dns_cache=False)
        try:
            # The answer as it is: a compressed one could be of any size.
            async with (
                asyncio.timeout(ANSWER_WITHIN),
                aiohttp.ClientSession(
                    connector=connector,
                    auto_decompress=False,
                    headers={"Accept": "text/calendar", "Accept-Encoding": "identity"},
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
            ):
                return await self._follow(session, url)
        except TimeoutError:
            raise UnreadableCalendarError(f"{host} does not send the calendar within {ANSWER_WITHIN:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a name with two dots is no host name
            for cause in (error, error.__cause__):
                if isinstance(cause, ForbiddenAddressError):
                    raise UnreadableCalendarError(str(cause)) from None
            raise UnreadableCalendarError(f"{host} cannot be reached ({type(error).__name__})") from None

    async def _follow(self, session: aiohttp.ClientSession, url: str) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            self._check(url)
            host = _host(url)
            async with session.get(url, allow_redirects=False) as response:
                if response.status in REDIRECTS and (target := response.headers.get("Location")):
                    url = urljoin(url, target)
                    continue
                if response.status != 200:
                    raise UnreadableCalendarError(f"{host} answers {response.status} in place of a calendar")
                return await _bounded(response, host)
        raise UnreadableCalendarError(f"{_host(url)} redirects more than {MAX_REDIRECTS} times")

    def _check(self, url: str) -> None:
        """Refuse a URL that must not be read, whatever its host's addresses are.

        Raises:
            UnreadableCalendarError: it must not be read.
        """
        parts, host = urlsplit(url), _host(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._insecure):
            raise UnreadableCalendarError(
                f"{host} would be read without TLS: write an https URL, or allow others with {ALLOWED_BY}"
            )
        if parts.username is not None or not host:
            raise UnreadableCalendarError("The URL of a calendar, or a redirect to another, has a user or no host")
        try:
            address = ip_address(host)
        except ValueError:
            return  # the resolver checks its addresses
        _refuse_own(address, host, self._insecure)


class ForbiddenAddressError(TenonError, OSError):
    """A host has an address that no calendar is read from. The message is one sentence."""


class _Resolver(AbstractResolver):
    """Resolves names, and refuses those with an address of this machine: the connection then goes to no other one."""

    def __init__(self, insecure: bool) -> None:
        self._insecure = insecure
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            ForbiddenAddressError: one of them is forbidden.
        """
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            _refuse_own(ip_address(result["host"].partition("%")[0]), host, self._insecure)
        return results

    async def close(self) -> None:
        """Close the resolver."""
        await self._resolver.close()


def _refuse_own(address: Address, host: str, insecure: bool) -> None:
    if not is_allowed(address, insecure=insecure):
        raise ForbiddenAddressError(
            f"{host} is at {address}, a loopback, link-local or reserved address, from which no calendar is read"
        )


def is_allowed(address: Address, *, insecure: bool = False) -> bool:
    """Whether a calendar may be read from an address: not from loopback, the instance's metadata and the like."""
    if isinstance(address, IPv6Address) and (inner := _inner(address)) is not None:
        return is_allowed(inner, insecure=insecure)
    if address.is_loopback:
        return insecure
    return not (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or (address.version == 6 and address in _AMAZON)
    )


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if it does."""
    if address in _NAT64:
        return IPv4Address(int(address) % _WORD)
    return address.ipv4_mapped or address.sixtofour


def _host(url: str) -> str:
    """Return the host of a URL, which may be named: the rest may be a secret."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


async def _bounded(response: aiohttp.ClientResponse, host: str) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MAX_BYTES:
            raise UnreadableCalendarError(f"The calendar of {host} is larger than {MAX_BYTES // 1024 // 1024} MiB")
    return bytes(content)


async def _evaluated(content: bytes, timezone: str, now: datetime) -> dict[str, Any]:
    """Return the answer of the process: the times, or a problem."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "activities.disruption.calendar_process", timezone, now.isoformat()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(EVALUATED_WITHIN):
            output, _ = await process.communicate(content)
    except TimeoutError:
        return {"problem": f"cannot be evaluated within {EVALUATED_WITHIN:.0f} s"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode in OVER_A_LIMIT:
        return {"problem": TOO_MUCH}
    if process.returncode:
        return {"problem": f"cannot be evaluated: the process ended with status {process.returncode}"}
    answer: dict[str, Any] = json.loads(output)
    return answer
