"""Where the worker gets its AWS credentials: from STS with the token of its ServiceAccount (IRSA), or from the agent of
EKS Pod Identity. Both are simulated, at the addresses that EKS writes into the environment of a Pod.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session
from botocore.utils import ContainerMetadataFetcher

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from cli import doctor
from cli.diagnosis.finding import FindingState
from sandbox.ec2.authorization.identities import SECRET, worker_key
from tests.local_server import running
from worker.settings import Settings

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

ROLE = "arn:aws:iam::123456789012:role/TenonController-sandbox"
LIFE = timedelta(minutes=5)
"""Short enough that the client fetches new credentials before each call."""
Answer = tuple[int, str]


@contextmanager
def serving(answer: Callable[[dict[str, str], str], Answer]) -> Iterator[str]:
    """Serve ``answer(headers, body)`` for each request, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status, text = answer(dict(self.headers), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with running(Handler) as address:
        yield address


def expiration() -> str:
    return (datetime.now(UTC) + LIFE).strftime("%Y-%m-%dT%H:%M:%SZ")


class Sts:
    """STS, as far as a ServiceAccount's token is exchanged for credentials of a role."""

    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []
        self.refusal: tuple[int, str] | None = None

    def __call__(self, _headers: dict[str, str], body: str) -> Answer:
        self.requests.append({name: values[0] for name, values in parse_qs(body).items()})
        if self.refusal is not None:
            status, code = self.refusal
            return status, (
                '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
                f"<Code>{code}</Code><Message>No.</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            )
        return 200, (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            "<AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{worker_key('sandbox')}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
            f"<SessionToken>session</SessionToken><Expiration>{expiration()}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )


class Agent:
    """The agent of EKS Pod Identity on a node."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.refuses = False

    def __call__(self, headers: dict[str, str], _body: str) -> Answer:
        self.tokens.append(headers.get("Authorization", ""))
        if self.refuses:
            return 403, "AccessDeniedException: no association for this ServiceAccount"
        return 200, json.dumps(
            {
                "AccessKeyId": worker_key("sandbox"),
                "SecretAccessKey": SECRET,
                "Token": "session",
                "AccountId": "123456789012",
                "Expiration": expiration(),
            }
        )


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, server: Server) -> pytest.MonkeyPatch:
    """The environment of a Pod without credentials. The sandbox's EC2 refuses keys that it does not know."""
    assert server
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)  # between its attempts
    return monkeypatch


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The file into which kubelet projects the ServiceAccount's token."""
    file = tmp_path / "token"
    file.write_text("first")
    return file


def as_irsa(pod: pytest.MonkeyPatch, token: Path, sts: str = "") -> None:
    pod.setenv("AWS_ROLE_ARN", ROLE)
    pod.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    pod.setenv("AWS_STS_REGIONAL_ENDPOINTS", "regional")
    if sts:
        pod.setenv("AWS_ENDPOINT_URL_STS", sts)


def as_pod_identity(pod: pytest.MonkeyPatch, token: Path, agent: str) -> None:
    pod.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{agent}/v1/credentials")
    pod.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))


def describe(clients: Ec2) -> int:
    """The number of the cluster's subnets that the credentials may see."""
    with translated("DescribeSubnets"):
        return len(clients.ec2.describe_subnets()["Subnets"])


def test_irsa_exchanges_the_token_of_the_service_account(pod: pytest.MonkeyPatch, token: Path, server: Server) -> None:
    """kubelet replaces the token every hour, so each exchange reads the file again."""
    sts = Sts()
    with serving(sts) as address:
        as_irsa(pod, token, address)
        clients = Ec2("us-west-2", server.endpoint)
        assert describe(clients) > 0
        token.write_text("second")
        assert describe(clients) > 0
    assert [item["WebIdentityToken"] for item in sts.requests] == ["first", "second"]
    assert {(item["Action"], item["RoleArn"]) for item in sts.requests} == {("AssumeRoleWithWebIdentity", ROLE)}


def test_pod_identity_sends_the_token_to_the_agent(pod: pytest.MonkeyPatch, token: Path, server: Server) -> None:
    agent = Agent()
    with serving(agent) as address:
        as_pod_identity(pod, token, address)
        clients = Ec2("us-west-2", server.endpoint)
        assert describe(clients) > 0
        token.write_text("second")
        assert describe(clients) > 0
    assert list(dict.fromkeys(agent.tokens)) == ["first", "second"]


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (403, "AccessDenied", "let the trust policy of Tenon's role name the ServiceAccount of its Pods"),
        (400, "InvalidIdentityToken", "check the AWS credentials of Tenon's Pods"),
        (400, "ExpiredTokenException", "check the AWS credentials of Tenon's Pods"),
    ],
)
def test_what_sts_refuses_is_named_with_its_mend(
    pod: pytest.MonkeyPatch, token: Path, server: Server, status: int, code: str, text: str
) -> None:
    sts = Sts()
    sts.refusal = (status, code)
    with serving(sts) as address:
        as_irsa(pod, token, address)
        with pytest.raises(EC2Error) as refused:
            describe(Ec2("us-west-2", server.endpoint))
    assert refused.value.explained == f"AWS refused sts:AssumeRoleWithWebIdentity ({code}): {text}"
    assert not refused.value.retryable


def test_an_agent_without_an_association_is_named(pod: pytest.MonkeyPatch, token: Path, server: Server) -> None:
    """The association may be created while the worker runs, so the call may succeed later."""
    agent = Agent()
    agent.refuses = True
    with serving(agent) as address:
        as_pod_identity(pod, token, address)
        with pytest.raises(EC2Error, match="no association for this ServiceAccount") as refused:
            Ec2("us-west-2", server.endpoint)
        assert (refused.value.code, refused.value.retryable) == ("NoCredentials", True)
        agent.refuses = False
        clients = Ec2("us-west-2", server.endpoint)
        assert describe(clients) > 0
        agent.refuses = True
        with pytest.raises(EC2Error, match="no association for this ServiceAccount") as refused:
            describe(clients)
        assert (refused.value.code, refused.value.retryable) == ("NoCredentials", True)
        agent.refuses = False
        assert describe(clients) > 0


@pytest.mark.parametrize("way", ["IRSA", "Pod Identity"])
def test_a_token_that_is_not_there_yet_is_named_and_the_call_can_be_repeated(
    pod: pytest.MonkeyPatch, token: Path, server: Server, way: str
) -> None:
    token.unlink()
    with serving(Sts() if way == "IRSA" else Agent()) as address:
        (as_irsa if way == "IRSA" else as_pod_identity)(pod, token, address)
        with pytest.raises(EC2Error, match=str(token)) as missing:
            describe(Ec2("us-west-2", server.endpoint))
        assert (missing.value.code, missing.value.retryable) == ("NoCredentials", True)
        token.write_text("first")
        clients = Ec2("us-west-2", server.endpoint)
        assert describe(clients) > 0
        token.unlink()
        with pytest.raises(EC2Error, match=str(token)):
            describe(clients)
        token.write_text("second")
        assert describe(clients) > 0


def test_a_pod_without_any_credentials_says_so(pod: pytest.MonkeyPatch, server: Server) -> None:
    assert pod
    with pytest.raises(EC2Error, match="Unable to locate credentials") as missing:
        describe(Ec2("us-west-2", server.endpoint))
    assert (missing.value.code, missing.value.retryable) == ("NoCredentials", True)


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-north-1", "sts.eu-north-1.amazonaws.com"),
        ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
    ],
)
def test_irsa_asks_sts_in_the_partition_of_the_region(
    pod: pytest.MonkeyPatch, token: Path, region: str, host: str
) -> None:
    """Also if no variable names the region, because the worker read it from instance metadata."""
    names: list[str] = []

    def send(_session: URLLib3Session, request: AWSPreparedRequest) -> None:
        names.append(str(request.url))
        raise EndpointConnectionError(endpoint_url=request.url)

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        pod.delenv(name, raising=False)
    pod.setattr(URLLib3Session, "send", send)
    as_irsa(pod, token)
    with pytest.raises(EC2Error, match="ConnectionError"):
        describe(Ec2(region))
    assert set(names) == {f"https://{host}/"}


def test_doctor_names_an_agent_without_an_association(pod: pytest.MonkeyPatch, token: Path) -> None:
    agent = Agent()
    agent.refuses = True
    pod.setenv("AWS_REGION", "us-west-2")
    with serving(agent) as address:
        as_pod_identity(pod, token, address)
        (finding,) = asyncio.run(doctor._check_aws(Settings(cluster_name="sandbox"), [], follows_scores=False))
    assert finding.state is FindingState.FAULT
    assert "no association for this ServiceAccount" in finding.sentence
    assert "check the Pod Identity association" in finding.remedy
