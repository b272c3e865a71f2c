"""Downloads of calendars from servers that mean no good, and evaluations that never end."""

from __future__ import annotations

import asyncio
import gzip
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp import web

from activities.disruption import calendar_process, calendars
from activities.disruption.calendar_process import TOO_MUCH
from activities.disruption.calendars import MAX_BYTES, MAX_REDIRECTS, Calendars, UnreadableCalendarError, is_allowed
from tenon.apis.disruptionfreeze import FreezeCalendar
from tenon.disruption.freezes.calendar_times import CalendarTimes, Event
from tests.calendar_server import Answer, calendar_text, serving_calendars

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
RELEASE = Event(NOW + timedelta(hours=1), NOW + timedelta(hours=2))
TOKEN = "secret-word"
OWN = "a loopback, link-local or reserved address, from which no calendar is read"


async def read(url: str, *, insecure: bool = True) -> CalendarTimes:
    return await Calendars(insecure=insecure).read(FreezeCalendar(url=url, timezone="Europe/Berlin"), NOW)


async def problem_of(url: str, *, insecure: bool = True) -> str:
    with pytest.raises(UnreadableCalendarError) as error:
        await read(url, insecure=insecure)
    assert TOKEN not in str(error.value), "the URL may be a secret"
    return str(error.value)


async def answered(answer: Answer) -> str:
    """What is wrong with an answer."""
    async with serving_calendars(answer) as address:
        return await problem_of(f"{address}/{TOKEN}")


async def test_a_calendar_is_downloaded_and_evaluated() -> None:
    requested: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        requested.append(request.path_qs)
        return web.Response(text=calendar_text(RELEASE))

    async with serving_calendars(serve) as address:
        times = await read(f"{address}/a.ics?token={TOKEN}")
    assert requested == [f"/a.ics?token={TOKEN}"]
    assert (times.events, times.timezone) == ((RELEASE,), "Europe/Berlin")
    assert times.known_until == NOW + timedelta(days=60)


async def test_a_redirect_is_followed_and_each_of_its_steps_is_checked() -> None:
    targets = {
        "/start": "/moved/twice",
        "/moved/twice": "calendar",
        "/metadata": "http://169.254.169.254/latest/meta-data/",
        "/mapped": "http://[::ffff:169.254.169.254]/",
        "/file": "file:///etc/passwd",
        "/user": "http://ann:word@127.0.0.1/",
        "/loop": "/loop",
        "/nowhere": "http://[/",
    }

    async def serve(request: web.Request) -> web.Response:
        target = targets.get(request.path)
        if target is None:
            return web.Response(text=calendar_text(RELEASE))
        return web.Response(status=302, headers={"Location": target})

    async with serving_calendars(serve) as address:
        assert (await read(f"{address}/start")).events == (RELEASE,)
        problems = {
            path: await problem_of(f"{address}{path}") for path in targets if path not in ("/start", "/moved/twice")
        }
    assert problems == {
        "/metadata": f"169.254.169.254 is at 169.254.169.254, {OWN}",
        "/mapped": f"::ffff:169.254.169.254 is at ::ffff:a9fe:a9fe, {OWN}",
        "/file": " would be read without TLS: write an https URL, or allow others with INSECURE_CALENDARS",
        "/user": "The URL of a calendar, or a redirect to another, has a user or no host",
        "/loop": f"127.0.0.1 redirects more than {MAX_REDIRECTS} times",
        "/nowhere": "127.0.0.1 cannot be reached (ValueError)",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
async def test_no_calendar_is_read_from_the_own_machine_whatever_its_name(host: str) -> None:
    """The name is resolved once, and the connection goes to the address that was checked."""
    problem = await problem_of(f"https://{host}:9/{TOKEN}", insecure=False)
    assert problem.endswith(OWN)


async def test_plain_http_is_refused_without_the_setting() -> None:
    problem = await problem_of(f"http://example.invalid/{TOKEN}", insecure=False)
    assert problem == (
        "example.invalid would be read without TLS: write an https URL, or allow others with INSECURE_CALENDARS"
    )


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("10.0.0.1", True),
        ("fd12:3456::1", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("64:ff9b::93.184.216.34", True),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("169.254.169.254", False),
        ("169.254.170.23", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("fd00:ec2::23", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::169.254.169.254", False),
        ("2002:a9fe:a9fe::1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
    ],
)
def test_which_addresses_are_read(address: str, allowed: bool) -> None:
    assert is_allowed(ip_address(address)) is allowed


async def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    sent_bytes = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent_bytes
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"X" * 65536)
            sent_bytes += 65536

    assert await answered(flood) == "The calendar of 127.0.0.1 is larger than 2 MiB"
    assert sent_bytes < 20 * MAX_BYTES


async def test_a_compressed_answer_is_not_unpacked() -> None:
    """Two megabytes of it could become gigabytes."""
    packed = gzip.compress(calendar_text(RELEASE).encode())

    async def serve(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    assert await answered(serve) == "The calendar of 127.0.0.1 is no iCalendar, or its end is missing"


async def test_an_answer_that_breaks_off_is_no_shorter_calendar() -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10000"})
        await response.prepare(request)
        await response.write(calendar_text(RELEASE).encode())
        assert request.transport is not None
        request.transport.close()
        return response

    assert await answered(serve) == "127.0.0.1 cannot be reached (ClientPayloadError)"


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (web.Response(status=404), "127.0.0.1 answers 404 in place of a calendar"),
        (web.Response(status=304), "127.0.0.1 answers 304 in place of a calendar"),
        (web.Response(status=302), "127.0.0.1 answers 302 in place of a calendar"),
        (web.Response(text="<html>Sign in</html>"), "The calendar of 127.0.0.1 is no iCalendar, or its end is missing"),
    ],
    ids=["missing", "not modified", "a redirect to nowhere", "a page"],
)
async def test_an_answer_that_is_no_calendar(response: web.Response, problem: str) -> None:
    async def serve(_: web.Request) -> web.Response:
        return response

    assert await answered(serve) == problem


async def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendars, "ANSWER_WITHIN", 0.2)
    waiting = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await waiting.wait()
        return web.Response()

    async with serving_calendars(hang) as address:
        assert await problem_of(f"{address}/{TOKEN}") == "127.0.0.1 does not send the calendar within 0 s"
        waiting.set()


async def test_a_host_that_does_not_exist_or_listen() -> None:
    assert (await problem_of(f"https://no-such-host.invalid/{TOKEN}")).startswith(
        "no-such-host.invalid cannot be reached"
    )
    assert await problem_of(f"http://127.0.0.1:1/{TOKEN}") == "127.0.0.1 cannot be reached (ClientConnectorError)"


def repeating(rule: str) -> str:
    event = f"BEGIN:VEVENT\r\nUID:1\r\nDTSTART:19000101T000000Z\r\nDURATION:PT1H\r\nRRULE:{rule}\r\nEND:VEVENT\r\n"
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{event}END:VCALENDAR\r\n"


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYSECOND=" + ",".join(map(str, range(60))) + ";BYMINUTE=" + ",".join(map(str, range(60))),
        "FREQ=SECONDLY;COUNT=1000000",
    ],
    ids=["every second of each day", "a million seconds"],
)
async def test_an_event_that_takes_for_ever_to_evaluate_is_given_up(rule: str) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(text=repeating(rule))

    problem = await answered(serve)
    assert problem in {
        f"The calendar of 127.0.0.1 {TOO_MUCH}",
        "The calendar of 127.0.0.1 has an event that repeats every minute or second: write a longer one instead",
    }


async def test_an_evaluation_without_memory_for_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so with its status: the first thing that it would do otherwise is to ask for memory."""
    program = (
        "import sys\n"
        "from activities.disruption import calendar_process\n"
        "def full(_: object) -> str:\n    raise MemoryError\n"
        "calendar_process.json.dumps = full\n"
        "calendar_process.main()\n"
    )
    start = asyncio.create_subprocess_exec

    async def full(
        interpreter: str, _: str, module: str, *arguments: str, **streams: Any
    ) -> asyncio.subprocess.Process:
        assert module == calendar_process.__name__
        return await start(interpreter, "-c", program, *arguments, **streams)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", full)

    async def serve(_: web.Request) -> web.Response:
        return web.Response(text=calendar_text(RELEASE))

    assert await answered(serve) == f"The calendar of 127.0.0.1 {TOO_MUCH}"


async def test_an_evaluation_that_waits_for_the_cpu_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendars, "EVALUATED_WITHIN", 0.0)

    async def serve(_: web.Request) -> web.Response:
        return web.Response(text=calendar_text(RELEASE))

    assert await answered(serve) == "The calendar of 127.0.0.1 cannot be evaluated within 0 s"
