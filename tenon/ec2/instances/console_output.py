"""Reads the console output of an instance whose Node does not join, and says what is wrong and what to do.

A console may also show what user data prints, such as passwords. So only lines that name a known fault and that the
kernel, systemd, containerd, nodeadm or the kubelet wrote are quoted, and they lose what looks like a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tenon.sentences import shortened

READ_CHARACTERS = 65_536
"""How much of the output is read, from its end. EC2 keeps no more."""
LINE_CHARACTERS = 2000
"""How much of one line is read."""
QUOTED_LINES = 2
QUOTED_CHARACTERS = 180
"""The most that one quoted line has."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault that lines of a console name. Lines that match ``unless`` are about something else."""

    pattern: re.Pattern[str]
    advice: str
    unless: re.Pattern[str] | None = None

    def names(self, line: str) -> bool:
        """Whether a line is about this fault."""
        return self.pattern.search(line) is not None and (self.unless is None or self.unless.search(line) is None)


def _fault(pattern: str, advice: str, unless: str = "") -> _Fault:
    return _Fault(re.compile(pattern, re.I), advice, re.compile(unless, re.I) if unless else None)


_ON_THE_NODE = r"127\.0\.0\.1|localhost|\[::1\]|\.sock\b|169\.254\."
_FAULTS = (
    _fault(
        r"kernel panic|unable to mount root fs|entering emergency mode|emergency shell|no bootable device",
        "the operating system does not boot: check that the AMI fits the instance type and its architecture",
    ),
    _fault(
        r"no space left on device",
        "a disk is full: set a larger volume in spec.blockDeviceMappings of the EC2NodeClass",
    ),
    _fault(
        r"out of memory: kill|invoked oom-killer",
        "the memory was full while the node booted: allow larger instance types, or start less in the user data",
    ),
    _fault(
        r"\bno kind \"\S+\" is registered|strict decoding error|could not find .*nodeconfig|no config in chain"
        r"|early-boot-config|unknown setting|refused the user data",
        "the first boot refused the user data: correct spec.userData of the EC2NodeClass",
    ),
    _fault(
        r"failed to (?:parse|validate) kubelet flag|unknown (?:\S+ )?flag|failed to (?:load|validate) kubelet config"
        r"|unrecognized feature gate|running with swap on is not supported",
        "the kubelet refused its settings: correct spec.kubelet and spec.userData of the EC2NodeClass",
    ),
    _fault(
        r"\b(?:unauthorizedoperation|accessdenied\w*|is not authorized to perform)\b",
        "AWS refused the node a call: give the node role the policies AmazonEKSWorkerNodePolicy and "
        "AmazonEC2ContainerRegistryPullOnly",
    ),
    _fault(
        r"(?:failed to|error|err).{0,40}pull.{0,80}image|no basic auth credentials|imagepullbackoff",
        "the node cannot pull an image: give its subnet a route to the registry, and the node role the policy "
        "AmazonEC2ContainerRegistryPullOnly",
    ),
    _fault(
        r"\bunauthorized\b|must be logged in to the server|system:anonymous|\bnodes?\b.*\bis forbidden\b",
        "the API server does not accept the node's role: give the role an access entry of type EC2_LINUX, or "
        "EC2_WINDOWS for Windows, or an entry in the ConfigMap kube-system/aws-auth",
    ),
    _fault(
        r"certificate has expired or is not yet valid",
        "a certificate is not valid at the node's time: check the clock of the AMI and the cluster's certificates",
    ),
    _fault(
        r"x509:|certificate signed by unknown authority|failed to verify certificate",
        "the node does not trust the API server's certificate: check the settings CLUSTER_CA_BUNDLE and "
        "CLUSTER_ENDPOINT",
    ),
    _fault(
        r"(?:169\.254\.169\.254|fd00:ec2::254|\bimds).*(?:time|refused|fail|error|unreachable|\b40[134]\b)"
        r"|ec2metadataerror",
        "the node cannot read instance metadata: check spec.metadataOptions of the EC2NodeClass",
    ),
    _fault(
        r"no such host|server misbehaving|name resolution|name or service not known|could not resolve host"
        r"|lookup \S+ on \S+: ",
        "the node cannot resolve names: check the DNS settings of the VPC (enableDnsSupport, enableDnsHostnames, "
        "DHCP options) and that its security groups allow DNS",
    ),
    _fault(
        r"no route to host|network is unreachable|host is unreachable",
        "the node has no route to the cluster or to AWS: check the route table of its subnet, and its NAT gateway "
        "or VPC endpoints",
        unless=_ON_THE_NODE,
    ),
    _fault(
        r"i/o timeout|context deadline exceeded|client\.timeout exceeded|tls handshake timeout|connection timed out"
        r"|connect timeout|connection refused",
        "the node cannot reach the API server or AWS: check the route table of its subnet, its NAT gateway or VPC "
        "endpoints, the security groups of node and cluster, and the setting CLUSTER_ENDPOINT",
        unless=_ON_THE_NODE,
    ),
    _fault(
        r"containerd(?:\[\d+\])?: .*(?:level=fatal|failed)|failed to start containerd|containerd\.service: failed",
        "containerd does not start: check the AMI and what the user data changes in its settings",
    ),
    _fault(
        r"nodeadm.*(?:\bfatal\b|\berror\b|\bfailed\b)|failed to start .*nodeadm|bootstrap\.sh.*\berror\b"
        r"|exited with error on line",
        "the node's bootstrap failed: check spec.userData and the AMI of the EC2NodeClass",
    ),
    _fault(
        r"kubelet(?:\[\d+\])?: (?:[EF]\d{4} .*failed|.*\"command failed\")|kubelet\.service: failed"
        r"|failed to start .*kubelet",
        "the kubelet does not start: check spec.kubelet, spec.userData and the AMI of the EC2NodeClass",
    ),
    _fault(
        r"cloud-init.*(?:\[warning\]|\berror\b|\bfailed\b|traceback)|failed to start .*cloud-(?:init|config|final)"
        r"|failed to run module",
        "cloud-init failed: check the scripts in spec.userData of the EC2NodeClass",
    ),
    _fault(
        r"failed to start |dependency failed for ",
        "a service of the operating system does not start: check the AMI and spec.userData of the EC2NodeClass",
    ),
)
"""Causes first: what follows from another fault comes after it."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_UPTIME = re.compile(r"^\s*\[\s*\d+\.\d+\]\s*")
_BLOCK_BEGINS, _BLOCK_ENDS = re.compile(r"-{3,}\s*BEGIN [^-]*-{3,}"), re.compile(r"-{3,}\s*END [^-]*-{3,}")
_TRACE = re.compile(r"(?:^|: )\++ \S")
"""A command that a shell script printed before it ran it (``set -x``)."""
_OF_THE_SYSTEM = re.compile(
    r"(?:\w{3} +\d+ [\d:]+ \S+ )?"
    r"(?:(?:kernel|systemd|containerd|nodeadm|kubelet|early-boot-config)(?:\[\d+\])?: "
    r"|(?:kubelet|containerd)\.service: |(?:\[ *FAILED *\] )?(?:Failed to start|Dependency failed for) "
    r"|Kernel panic|Out of memory: Kill)",
    re.I,
)
"""How a line begins that no script of user data wrote. cloud-init puts its name before what scripts print."""
_JSON = re.compile(r"\{.*\}\s*$")
_SECRETS = (
    (re.compile(r"(://)[^/@\s]+@"), r"\1…@"),
    (re.compile(r"(\bauthorization[\"']?\s*[=:]\s*)(?:[\w-]+\s+)?\S+", re.I), r"\1…"),
    (re.compile(r"(\b(?:bearer|basic)\s+)\S+", re.I), r"\1…"),
    (re.compile(r"(--?[\w-]*(?:pass|pwd|psk|secret|token|key)[\w-]*[\s=]+)\S+", re.I), r"\1…"),
    (
        re.compile(
            r"((?:pass|pwd|psk|secret|token|credentials?|(?:api|access|private)[-_]?key(?:[-_]?id)?)"
            r"[\w.-]*[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|\S+)",
            re.I,
        ),
        r"\1…",
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"), "…"),
    (re.compile(r"[A-Za-z0-9+/_=-]{40,}"), "…"),
)
"""What looks like a secret, and what is shown instead."""
_VARIES = re.compile(r"[0-9a-f]*\d[0-9a-f]*", re.I)


def explain_console(output: str) -> str:
    """Return what the console output says about a Node that does not join, with advice and the lines that say it."""
    if not output.strip():
        return "its console output is still empty"
    lines = list(_lines(output[-READ_CHARACTERS:]))
    for fault in _FAULTS:
        naming = [line for line in lines if fault.names(line)]
        if naming:
            quoted = " | ".join(_quoted([line for line in naming if _OF_THE_SYSTEM.match(line)]))
            return f"its console output says that {fault.advice}" + (f" ({quoted})" if quoted else "")
    return "its console output names no fault that Tenon knows"


def _quoted(lines: list[str]) -> list[str]:
    """The last of the lines, each once although its times and numbers differ, without what looks like a secret."""
    distinct = {_VARIES.sub("0", line): line for line in lines}
    return [shortened(_without_secrets(line), QUOTED_CHARACTERS) for line in list(distinct.values())[-QUOTED_LINES:]]


def _without_secrets(line: str) -> str:
    for pattern, shown in _SECRETS:
        line = pattern.sub(shown, line)
    return line


def _lines(output: str) -> Iterator[str]:
    """The lines without control characters, keys and certificates, and commands of scripts."""
    in_block = False
    for raw in _TERMINAL.sub("", output).splitlines():
        line = _UPTIME.sub("", _printable(raw[:LINE_CHARACTERS]))
        if in_block or _BLOCK_BEGINS.search(line):
            in_block = _BLOCK_ENDS.search(line) is None
        elif line and not _TRACE.search(line):
            yield _printable(_plain(line))


def _printable(text: str) -> str:
    """The text in one line, without control characters and halves of characters, which JSON may hold as escapes."""
    return " ".join(_CONTROL.sub("", text).encode(errors="replace").decode().split())


def _plain(line: str) -> str:
    """The line, with the message and error of a JSON record instead of the record, as nodeadm writes them."""
    match = _JSON.search(line)
    if match is None:
        return line
    try:
        record = json.loads(match[0])
    except (ValueError, RecursionError):
        return line
    texts = [str(record[key]) for key in ("level", "msg", "error") if record.get(key)]
    return f"{line[: match.start()]}{': '.join(texts)}" if texts else line
