"""What the console output of an instance says about a Node that does not join (LIF-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.ec2.instances.console_output import QUOTED_CHARACTERS, READ_CHARACTERS, explain_console

API = '"https://ABC.gr7.us-west-2.eks.amazonaws.com/api/v1/nodes\\"'


def kubelet(error: str) -> str:
    return (
        f'[   40.1] kubelet[1512]: E1126 12:00:00.1 1512 kubelet_node_status.go:107] "Unable to register" err="{error}"'
    )


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (kubelet("Unauthorized"), "access entry of type EC2_LINUX"),
        (kubelet('nodes \\"ip-1\\" is forbidden: User \\"system:anonymous\\" cannot get'), "access entry"),
        (kubelet(f"Post {API}: dial tcp 10.0.1.5:443: i/o timeout"), "cannot reach the API server"),
        (kubelet(f"Post {API}: dial tcp 10.0.1.5:443: connect: connection refused"), "cannot reach the API server"),
        (kubelet(f"Post {API}: net/http: TLS handshake timeout"), "cannot reach the API server"),
        (kubelet(f"Post {API}: dial tcp 10.0.1.5:443: connect: no route to host"), "route table"),
        (kubelet(f"Post {API}: dial tcp: lookup ABC on 10.0.0.2:53: no such host"), "DNS settings of the VPC"),
        (
            kubelet("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
            "CLUSTER_CA_BUNDLE",
        ),
        (kubelet("x509: certificate has expired or is not yet valid"), "clock"),
        (
            'kubelet[1]: E1126 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --x"',
            "kubelet",
        ),
        (
            '[    9.1] nodeadm[1203]: {"level":"fatal","ts":1.1,"msg":"Command failed","error":"no kind \\"Node\\" is '
            'registered for version \\"node.eks.aws/v1alpha1\\""}',
            "correct spec.userData",
        ),
        ("early-boot-config[900]: the user data is not TOML", "correct spec.userData"),
        (
            'nodeadm[12]: {"level":"error","msg":"retrying","error":"operation error EC2: DescribeInstances, api error '
            'UnauthorizedOperation: You are not authorized"}',
            "AmazonEKSWorkerNodePolicy",
        ),
        (
            'containerd[9]: level=error msg="failed to pull image \\"602401143452.dkr.ecr/pause:3.10\\": 403"',
            "pull an image",
        ),
        ("cloud-init[1442]: util.py[WARNING]: Running module scripts-user failed", "cloud-init failed"),
        (
            "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
            "AMI fits the instance type",
        ),
        ("systemd[1]: write error: No space left on device", "blockDeviceMappings"),
        ("cloud-init[9]: Calling 'http://169.254.169.254/latest' failed: connect timeout", "metadataOptions"),
        ("Failed to start nodeadm-run.service - EKS Nodeadm Run.", "bootstrap failed"),
        ("[FAILED] Failed to start foo.service", "service of the operating system"),
    ],
)
def test_a_known_fault_is_named_with_what_to_do_and_its_line(line: str, advice: str) -> None:
    console = f"[    0.0] Linux version 6.12\r\n{line}\r\nAmazon Linux 2023\r\nip-10-0-0-7 login: "
    text = explain_console(console)
    assert text.startswith("its console output says that ")
    assert advice in text
    assert text.endswith(")") is not line.startswith("cloud-init"), "scripts of user data write through cloud-init"


@pytest.mark.parametrize(
    "line",
    [
        "Amazon Linux 2023",
        "ci-info: | 4 | 169.254.169.254 | 10.0.0.1 | 255.255.255.255 | ens5 | UGH |",
        "kubelet[1]: dial unix /run/containerd/containerd.sock: connect: connection refused",
        "cloud-init[9]: + curl https://example.com --fail-with Unauthorized",
        "-----BEGIN SSH HOST KEY KEYS-----\nUnauthorized\n-----END SSH HOST KEY KEYS-----",
    ],
)
def test_a_console_without_a_known_fault_is_not_quoted(line: str) -> None:
    assert explain_console(line) == "its console output names no fault that Tenon knows"


def test_a_cause_comes_before_what_follows_from_it() -> None:
    console = "\n".join([kubelet("no such host"), "kubelet.service: Failed with result 'exit-code'."])
    assert "DNS" in explain_console(console)


def test_a_line_that_is_repeated_is_quoted_once_and_the_last_two_are_quoted() -> None:
    """A kubelet writes the same line every few seconds, with other times."""
    lines = [kubelet("Unauthorized").replace("12:00:00", f"12:00:{second:02}") for second in range(30)]
    text = explain_console("\n".join(["systemd[1]: first Unauthorized", "systemd[2]: second Unauthorized", *lines]))
    assert text.count("Unauthorized") == 2
    assert "second Unauthorized | kubelet" in text
    assert "12:00:29" in text


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "id AKIAIOSHUNTER2EXAMPLE",
        "https://me:hunter2@host",
        "Authorization: Bearer hunter2",
        "Authorization: Basic hunter2==",
        "--password hunter2",
        "--token abcdef.hunter2",
        "DB_PASS=hunter2",
        "psk: hunter2",
        "jwt hunter2eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMzQ1Njc4OTAifQ",
    ],
)
def test_what_looks_like_a_secret_is_not_quoted(text: str) -> None:
    message = explain_console(f"kubelet.service: Failed with {text}")
    assert "kubelet.service: Failed with " in message
    assert "hunter2" not in message.lower()


@pytest.mark.parametrize(
    "line",
    [
        "cloud-init[1]: helm login failed with hunter2",
        "helm login hunter2: i/o timeout",
        "docker login -u x -p hunter2 reg: i/o timeout",
        "cloud-init[1]: kubelet[2]: hunter2 Unauthorized",
    ],
)
def test_what_a_script_may_have_printed_is_not_quoted(line: str) -> None:
    """The fault is named all the same."""
    text = explain_console(line)
    assert text.startswith("its console output says that ")
    assert "hunter2" not in text


def test_an_empty_console_says_so() -> None:
    assert explain_console(" \r\n") == "its console output is still empty"


@given(st.text(max_size=400), st.sampled_from(["Unauthorized", "no such host", "failed to start x", ""]))
def test_what_is_said_of_a_console_is_short_and_has_no_control_characters(text: str, fault: str) -> None:
    message = explain_console(f"{text}{fault}\x1b[31m\x07{text}" * 3)
    assert len(message) < 3 * QUOTED_CHARACTERS + 300
    assert not any(ord(item) < 32 or 127 <= ord(item) < 160 for item in message)


def test_escapes_in_a_record_of_nodeadm_bring_no_control_characters_back() -> None:
    text = explain_console('nodeadm[1]: {"level":"error","msg":"a\\u001b[2J\\ud800\\nb"}')
    assert text.endswith("(nodeadm[1]: error: a[2J? b)")


@pytest.mark.parametrize("part", ["{", "\x1b]", "password=", '{"', "-----BEGIN X-----", "nodeadm error "])
def test_a_long_console_of_one_kind_of_text_is_read_to_its_end(part: str) -> None:
    """Whatever a machine prints must not keep the worker busy: this would take hours if the time were quadratic."""
    assert explain_console(part * (2 * READ_CHARACTERS // len(part)))
