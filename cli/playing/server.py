"""The web server of the page. It listens on loopback only, and answers only its own page in a browser.

Any page in the user's browser can send requests to loopback, as a form or under a name of its own that resolves to
loopback (DNS rebinding). So the server checks the name that was asked for, and where a form comes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.web_request import FileField

from cli.playing.built_in import EXAMPLES, OWN_FILES
from cli.playing.form import MAX_MANIFESTS, FormError, joined_manifests, request_of
from cli.playing.plan_process import BusyError, PlanProcess
from cli.playing.setup import PageRequest, Setup
from cli.simulating.files import read_named_texts
from tenon.manifests.faults import ManifestError

HOST = "127.0.0.1"
OWN_NAMES = (HOST, "localhost")
MAX_BODY = 8 * MAX_MANIFESTS
"""The manifests, files, and the manifests of the plan to compare with, in JSON."""
SECONDS_TO_SEND = 30
"""How long a browser on this machine may take to send a form."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without a referrer, browsers send forms with the origin null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(plans: PlanProcess, filenames: Sequence[str] = ()) -> web.Application:
    """Return the server. ``filenames``: manifests to begin with, which are read again for each page."""

    async def begin(request: web.Request) -> web.Response:
        name = request.query.get("example", OWN_FILES if filenames else next(iter(EXAMPLES)))
        if name == OWN_FILES and filenames:
            setup, refusal = await asyncio.to_thread(_read_files, filenames)
        elif name in EXAMPLES:
            example = EXAMPLES[name]
            setup, refusal = Setup(example.manifests, disruption=example.disruption), ""
        else:
            raise web.HTTPNotFound(text="There is no such example: open / and choose one.\n")
        return await _page(PageRequest(setup, refusal=refusal, example=name, own_files=bool(filenames)))

    async def plan(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(SECONDS_TO_SEND):
                posted = await request.post()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="The form did not arrive in time: send it again.\n") from None
        except (LookupError, ValueError):  # an unknown character set, or other bytes than it has
            raise web.HTTPBadRequest(text="The form cannot be read: it is not UTF-8 text.\n") from None
        fields = {key: value for key, value in posted.items() if isinstance(value, str)}
        uploads = [value for value in posted.values() if isinstance(value, FileField) and value.filename]
        try:
            question = request_of(fields, [(upload.filename, upload.file.read()) for upload in uploads])
        except FormError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        return await _page(msgspec.structs.replace(question, own_files=bool(filenames)))

    async def _page(question: PageRequest) -> web.Response:
        try:
            return web.Response(text=await plans.page(question), content_type="text/html")
        except BusyError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None

    async def prepare(_: web.Application) -> None:
        await plans.start()

    async def finish(_: web.Application) -> None:
        await plans.stop()

    app = web.Application(client_max_size=MAX_BODY, middlewares=[_only_own_pages])
    app.router.add_get("/", begin)
    app.router.add_get("/plan", _to_the_beginning)
    app.router.add_post("/plan", plan)
    app.on_startup.append(prepare)
    app.on_cleanup.append(finish)
    return app


@web.middleware
async def _only_own_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        _refuse_others(request)
        answer = await handler(request)
    except web.HTTPException as error:
        error.headers.update(HEADERS)
        raise
    answer.headers.update(HEADERS)
    return answer


def _refuse_others(request: web.Request) -> None:
    """Refuse what other pages send.

    Raises:
        HTTPForbidden: the request is not for this server by its own name, or comes from another page.
    """
    if _name(f"//{request.host}") not in OWN_NAMES:
        raise web.HTTPForbidden(text="This server answers only as 127.0.0.1 or localhost.\n")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        raise web.HTTPForbidden(text="Pages of other origins may not use this server.\n")
    site, mode = request.headers.get("Sec-Fetch-Site"), request.headers.get("Sec-Fetch-Mode")
    is_link = request.method == "GET" and mode == "navigate"
    if site not in (None, "same-origin", "none") and not is_link:
        raise web.HTTPForbidden(text="Pages of other origins may not use this server.\n")


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


async def _to_the_beginning(_: web.Request) -> web.Response:
    """A page that was the answer to a form cannot be opened again by its address."""
    raise web.HTTPSeeOther("/")


def _read_files(filenames: Sequence[str]) -> tuple[Setup, str]:
    """Return the manifests of the command line, and why they cannot be read."""
    faults: list[ManifestError] = []
    manifests = joined_manifests(list(read_named_texts(filenames, faults)))
    if len(manifests.encode()) > MAX_MANIFESTS:
        return Setup(), f"The manifests are larger than {MAX_MANIFESTS // 2**20} MiB: name fewer files."
    return Setup(manifests), "; ".join(map(str, faults))
