"""The front of the sandbox's AWS. Every call passes through it before and after the mock.

It determines the service, the action and the caller, applies limits, rights and injected faults, and lets only one
changing call run at a time, because the mock is not thread-safe. It records the call, and turns the mock's failures
into proper errors that are counted.
"""

from __future__ import annotations

import io
import json
import re
import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl

from activities import loggers
from sandbox.ec2 import commitments, pricing, service_quotas, zonal_shift
from sandbox.ec2.authorization.identities import Caller
from sandbox.ec2.authorization.needs import needs
from sandbox.ec2.errors import SERVER_ERRORS, Answer, access_denied, aws_error, json_answer, unknown_caller
from sandbox.ec2.faults import Fault
from sandbox.ec2.world import World

POLL_SECONDS = 0.1
"""How often a call that waits for messages looks for them."""
BODY_LIMIT = 8 * 1024 * 1024
PROFILE_CHANGES = ("CreateInstanceProfile", "AddRoleToInstanceProfile")
READING = ("Describe", "Get", "List", "Head")
SCOPE = re.compile(r"Credential=(?P<key>[^/]+)/[^/]+/(?P<region>[^/]+)/(?P<service>[^/]+)/")
log = loggers.SANDBOX_EC2
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Admin(Protocol):
    """Handles ``/sandbox/`` calls."""

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer: ...


@dataclass(frozen=True)
class Call:
    """One call, parsed as far as necessary here."""

    service: str
    action: str
    parameters: dict[str, str]
    body: bytes
    path: str = ""
    region: str = ""
    access_key: str = ""
    """Empty if the call is not signed."""

    @property
    def changes(self) -> bool:
        """Whether the call may change anything."""
        return not self.action.startswith(READING)


class Front:
    """The WSGI application."""

    def __init__(self, world: World, mock: Callable[..., Iterable[bytes]], admin: Admin) -> None:
        self._world = world
        self._mock = mock
        self._admin = admin

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answer(environ)
        headers = [
            (name, value) for name, value in answer.headers if name.lower() not in ("content-length", "connection")
        ]
        start_response(answer.reason, [*headers, ("Content-Length", str(len(answer.body)))])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [answer.body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > BODY_LIMIT:
            return json_answer(413, {"message": f"The body has {length} bytes; the sandbox takes {BODY_LIMIT} at most"})
        body = environ["wsgi.input"].read(length) if length else b""
        environ["wsgi.input"] = io.BytesIO(body)
        path = str(environ.get("PATH_INFO") or "/")
        if path.startswith("/sandbox/"):
            query = dict(parse_qsl(str(environ.get("QUERY_STRING") or "")))
            return self._admin.answer(str(environ["REQUEST_METHOD"]), path, query, body)
        if path == "/moto-api/reset":
            return self._admin.answer("POST", "/sandbox/reset", {}, b"")
        call = parse_call(environ, body)
        answer = self._serve(call, environ)
        error = error_code(answer) if answer.status >= 400 else ""
        self._world.calls.add(call.service, call.action, call.parameters, answer.status, error)
        return answer

    def _serve(self, call: Call, environ: dict[str, Any]) -> Answer:
        world = self._world
        empty = world.buckets.refused_by(call.action, call.parameters) if call.service == "ec2" else ""
        if empty or not world.throttle.allows(call.action):
            return aws_error(call.service, 503, "RequestLimitExceeded", "Request limit exceeded.")
        if (problem := self._unauthorized(call)) is not None:
            return problem
        fault = world.faults.next(call.action, call.parameters)
        hold = world.holds.next(call.action, dry_run=call.parameters.get("DryRun") == "true")
        if hold is not None and not hold.after_effect and not world.holds.wait(lambda: client_gone(environ)):
            return aws_error(call.service, 503, "RequestCanceled", "The client went away before the call took effect.")
        if fault is not None and fault.latency_seconds:
            time.sleep(fault.latency_seconds)
        if fault is not None and fault.code and not fault.after_effect:
            return _injected(call, fault)
        if call.service == "pricing":
            answer = pricing.answer(world.prices, call.action, call.body)
        elif call.service == service_quotas.SERVICE:
            answer = service_quotas.answer(world.fleets.quotas, call.action, call.body)
        elif call.service == commitments.SERVICE:
            answer = world.commitments.answer(call.action, call.body)
        elif call.service == zonal_shift.SERVICE:
            answer = world.zonal_shifts.answer(call.action, call.path, world.cluster.name)
        else:
            answer = self._receive(call, environ) if call.action == "ReceiveMessage" else self._locked(call, environ)
        if call.action in PROFILE_CHANGES and answer.status < 400:
            world.consistency.profile_changed(call.parameters.get("InstanceProfileName", ""))
        if hold is not None and hold.after_effect:
            world.holds.wait(lambda: client_gone(environ))
        if fault is not None and fault.code:
            return _injected(call, fault)
        return answer

    def _unauthorized(self, call: Call) -> Answer | None:
        """The error for a caller that the account does not know, or whose policy does not allow the call."""
        caller = Caller.of(call.access_key)
        if caller is None:
            return unknown_caller(call.service)
        refusal = self._world.judge.refuse(caller, needs(call))
        return None if refusal is None else access_denied(call.service, refusal)

    def _locked(self, call: Call, environ: dict[str, Any]) -> Answer:
        """Forward a call while no other call changes what it may change."""
        if call.service == "sqs":
            with self._world.events.lock:
                self._world.events.drop_expired()
                return self._forward(call, environ)
        with self._world.lock if call.changes else nullcontext():
            return self._forward(call, environ)

    def _receive(self, call: Call, environ: dict[str, Any]) -> Answer:
        """Wait for messages as SQS does. The mock would wait inside the call, and keep other calls waiting too."""
        request = json.loads(call.body or b"{}")
        until = time.monotonic() + float(request.get("WaitTimeSeconds") or 0)
        body = json.dumps({**request, "WaitTimeSeconds": 0}).encode()
        while True:
            environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
            answer = self._locked(call, environ)
            if answer.status != 200 or b"ReceiptHandle" in answer.body or time.monotonic() >= until:
                return answer
            if client_gone(environ):
                return answer
            time.sleep(POLL_SECONDS)

    def _forward(self, call: Call, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], _problem: Any = None
        ) -> Callable[[bytes], None]:
            started[:] = [int(status[:3]), headers]
            return lambda _chunk: None

        try:
            chunks = self._mock(environ, start_response)
            body = b"".join(chunks)
        except Exception:
            # The mock can raise any exception. The caller gets an error that AWS clients know, and the log the cause.
            log.exception("An AWS call failed", extra={"service": call.service, "action": call.action})
            started[:] = [500, []]
        else:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        status, headers = started
        if status >= 500:
            self._world.internal_errors.append(f"{call.service}.{call.action}")
            message = f"The sandbox failed on {call.service} {call.action}; its log has the reason"
            return aws_error(call.service, 500, "InternalError", message)
        answer = Answer(status, list(headers), body)
        return replace(answer, status=500) if status == 400 and error_code(answer) in SERVER_ERRORS else answer


def client_gone(environ: dict[str, Any]) -> bool:
    """Whether the client has closed the connection of a call. False if the server has no connection for it."""
    connection: socket.socket | None = environ.get("werkzeug.socket")
    if connection is None:
        return False
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def parse_call(environ: dict[str, Any], body: bytes) -> Call:
    """Determine service and caller (from the signature) and action (from the form, the target header, or the path)."""
    scope = SCOPE.search(str(environ.get("HTTP_AUTHORIZATION") or ""))
    service = scope["service"].lower() if scope else ""
    path, region, key = (
        str(environ.get("PATH_INFO") or ""),
        scope["region"] if scope else "",
        scope["key"] if scope else "",
    )
    target = str(environ.get("HTTP_X_AMZ_TARGET") or "")
    if target:
        return Call(service, target.rpartition(".")[2], _json_parameters(body), body, path, region, key)
    form = dict(parse_qsl(body.decode("utf-8", "replace"))) if b"Action=" in body else {}
    if not form:
        form = dict(parse_qsl(str(environ.get("QUERY_STRING") or "")))
    action = form.pop("Action", "") or _rest_action(service, environ)
    return Call(service, action, form, body, path, region, key)


def _rest_action(service: str, environ: dict[str, Any]) -> str:
    """An action name for a call of a REST service, such as EKS's ``DescribeCluster``."""
    method, path = str(environ["REQUEST_METHOD"]), str(environ.get("PATH_INFO"))
    if service == "eks" and method == "GET" and re.fullmatch(r"/clusters/[^/]+", path):
        return "DescribeCluster"
    if service == zonal_shift.SERVICE and method == "GET" and path.startswith(zonal_shift.PATH):
        return "GetManagedResource"
    if service == commitments.SERVICE and method == "POST" and path.removeprefix("/") in commitments.ACTIONS:
        return path.removeprefix("/")
    return f"{'Get' if method == 'GET' else method.title()} {path}"


def _json_parameters(body: bytes) -> dict[str, str]:
    try:
        content = json.loads(body or b"{}")
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in content.items()} if isinstance(content, dict) else {}


def error_code(answer: Answer) -> str:
    """The AWS error code in a response. Empty if it has none."""
    search = re.search(rb"<Code>([^<]*)</Code>|\"__type\": ?\"([^\"]*)\"", answer.body)
    return (search[1] or search[2] or b"").decode() if search else ""


def _injected(call: Call, fault: Fault) -> Answer:
    message = fault.message or f"{fault.code}, as injected into {call.action}"
    return aws_error(call.service, fault.status, fault.code, message)
