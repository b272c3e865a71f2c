"""The server of ``tenon playground``, its process with limits, and the page in a real browser."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import FormData
from aiohttp.test_utils import TestClient, TestServer
from playwright.async_api import expect

from cli.playing.plan_process import PlanProcess
from cli.playing.server import MAX_BODY, application
from tests.e2e.browser import CHROMIUM, browser
from tests.simulate.running import POOL, deployment

pytestmark = pytest.mark.integration

LOAD = POOL + deployment("web", 2)
Client = TestClient[Any, Any]


@asynccontextmanager
async def serving(seconds: int = 300, *files: str) -> AsyncIterator[Client]:
    async with TestClient(TestServer(application(PlanProcess(seconds), files))) as client:
        yield client


@pytest_asyncio.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    async with serving() as started:
        yield started


def form(manifests: str = LOAD, **fields: str) -> FormData:
    data = FormData({"manifests": manifests, **fields})
    data.add_field("files", b"", filename="", content_type="application/octet-stream")
    return data


async def test_the_first_page_has_the_plan_of_an_example(client: Client) -> None:
    answer = await client.get("/")
    assert answer.status == 200
    assert "New nodes (" in await answer.text()
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


async def test_a_form_is_planned(client: Client) -> None:
    answer = await client.post("/plan", data=form(), headers={"Origin": f"http://127.0.0.1:{client.port}"})
    text = await answer.text()
    assert answer.status == 200, text
    assert "default/web x2" in text


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8090", "127.0.0.1.evil.com", "[::1", ""])
async def test_other_names_of_loopback_are_refused(client: Client, host: str) -> None:
    """As a page does whose name was made to resolve to 127.0.0.1."""
    answer = await client.get("/", headers={"Host": host})
    assert answer.status == 403
    assert (await answer.text()) == "This server answers only as 127.0.0.1 or localhost.\n"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_forms_of_other_pages_are_refused(client: Client, headers: dict[str, str]) -> None:
    answer = await client.post("/plan", data=form(), headers=headers)
    assert answer.status == 403
    assert (await answer.text()) == "Pages of other origins may not use this server.\n"


async def test_other_pages_may_link_to_it_and_not_load_it(client: Client) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await client.get("/?example=empty", headers=link)).status == 200
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await client.get("/?example=empty", headers=image)).status == 403


async def test_too_much_and_what_is_no_form_is_refused(client: Client) -> None:
    assert (await client.post("/plan", data=form("x" * (MAX_BODY + 1)))).status == 413
    answer = await client.post("/plan", data=form("x" * (MAX_BODY // 4)))
    assert (answer.status, await answer.text()) == (
        400,
        "The manifests are larger than 4 MiB: leave out what has no part in it.\n",
    )
    answer = await client.post(
        "/plan", data=b"manifests=%ff", headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.status in (200, 400)
    assert (await client.get("/?example=none")).status == 404


async def test_a_page_that_was_the_answer_to_a_form_leads_to_the_beginning(client: Client) -> None:
    answer = await client.get("/plan", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_a_plan_that_takes_too_long_is_ended_and_the_next_one_is_made() -> None:
    endless = POOL + "".join(deployment(f"w{number}", 2000, cpu=f"{number + 1}01m") for number in range(90))
    async with serving(1) as client:
        text = await (await client.post("/plan", data=form(endless))).text()
        assert "The plan takes more than 1 s: leave out pods, or start with a larger --timeout." in text
        assert "&quot;w89&quot;" in text, "what was pasted is still in the field"
    async with serving(300) as client:
        assert "default/web x2" in await (await client.post("/plan", data=form())).text()


async def test_a_process_that_dies_is_replaced() -> None:
    plans = PlanProcess(300)
    async with TestClient(TestServer(application(plans))) as client:
        process = await plans.start()
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        assert "default/web x2" in await (await client.post("/plan", data=form())).text()
        assert (await plans.start()).pid != process.pid


async def test_your_files_are_the_first_example_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LOAD)
    async with serving(300, str(file)) as client:
        text = await (await client.get("/")).text()
        assert "default/web x2" in text
        assert 'aria-current="page">Your files' in text
        file.write_text(LOAD.replace("web", "api"))
        assert "default/api x2" in await (await client.get("/")).text()
        file.unlink()
        assert "mine.yaml: cannot be read: No such file or directory" in await (await client.get("/")).text()


def listening_addresses(port: int) -> set[str]:
    """The addresses on which a program of this machine listens on the port, as Linux writes them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")}


async def test_the_command_serves_loopback_only_and_ends_with_ctrl_c() -> None:
    command = (sys.executable, "-m", "cli", "playground", "--port", "0")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    match = re.fullmatch(r"The playground is on http://127\.0\.0\.1:(\d+)/ until Ctrl-C\. .*\n", line)
    assert match is not None, line
    assert listening_addresses(int(match[1])) == {"0100007F"}, "127.0.0.1 and no other address"
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 0


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium")
async def test_a_person_loads_an_example_changes_a_price_and_sees_the_difference(client: Client) -> None:
    async with browser() as tab:
        page = tab.page
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await page.goto(f"http://127.0.0.1:{client.port}/")
        await page.get_by_role("link", name="400 small pods").click()
        await expect(page.get_by_role("heading", name="New nodes")).to_be_visible()
        row = page.get_by_role("group", name="Prices and capacity, row 1")
        bought_type = await row.get_by_label("Instance type").input_value()
        await row.get_by_label("Instance type").fill(f"{bought_type.partition('.')[0]}.*")
        await row.get_by_label("New price").fill("+400%")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="What differs")).to_be_visible()
        await expect(page.locator("#plan")).to_contain_text("an hour more")
        await expect(page.get_by_role("heading", name="Pods that come to other nodes")).to_be_visible()
        await expect(page.locator("#plan table").nth(1)).to_contain_text(bought_type)
        assert await row.get_by_label("New price").input_value() == "+400%"
        await row.get_by_label("New price").fill("")
        await page.get_by_role("button", name="Plan", exact=True).click()
        await expect(page.get_by_role("heading", name="The plan")).to_be_visible()
        assert errors == []
        assert {url.split("/")[2] for url in requests} == {f"127.0.0.1:{client.port}"}
