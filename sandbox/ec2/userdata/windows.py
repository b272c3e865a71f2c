"""Windows: the arguments that a PowerShell block gives to Start-EKSBootstrap.ps1.

There is no PowerShell here. The block is read as far as its grammar of quotes, brackets and comments goes.
"""

from __future__ import annotations

from dataclasses import replace

from sandbox.ec2.userdata.settings import KubeletSettings, UserDataRefusedError, from_kubelet

PROGRAM = "Start-EKSBootstrap.ps1"
PARAMETERS = frozenset(
    {
        "APIServerEndpoint",
        "Base64ClusterCA",
        "ContainerRuntime",
        "DNSClusterIP",
        "EKSClusterName",
        "ExcludedSnatCIDRs",
        "KubeletExtraArgs",
        "KubeProxyExtraArgs",
        "ServiceCIDR",
    }
)
_PAIRS = {"(": ")", "{": "}", "[": "]"}


def read(text: str) -> KubeletSettings:
    """Read user data as EKS's Windows image does at its first boot.

    Raises:
        UserDataRefusedError: PowerShell cannot parse it, or it does not call Start-EKSBootstrap.ps1 as it must.
    """
    stripped = text.strip()
    if not (stripped.startswith("<powershell>") and stripped.endswith("</powershell>")):
        raise UserDataRefusedError("EC2Launch runs only what is between <powershell> and </powershell>")
    script = stripped.removeprefix("<powershell>").removesuffix("</powershell>")
    for words in statements(script):
        if any(PROGRAM in word for word in words):
            return _bootstrap(words)
    raise UserDataRefusedError(f"the script does not call {PROGRAM}")


def statements(script: str) -> list[list[str]]:
    """Split a script into statements, and each into words without their quotes.

    Raises:
        UserDataRefusedError: a quotation mark or a bracket is not closed, or closes nothing.
    """
    names: list[list[str]] = [[]]
    word: str | None = None
    open_brackets: list[str] = []
    place = 0
    while place < len(script):
        sign = script[place]
        if sign in "'\"":
            value, place = _quoted(script, place)
            word = (word or "") + value
            continue
        if sign == "#" and word is None:
            end = script.find("\n", place)
            place = len(script) if end < 0 else end
            continue
        if sign == "`" and place + 1 < len(script):
            word = (word or "") + ("" if script[place + 1] == "\n" else script[place + 1])
            place += 2
            continue
        if sign in _PAIRS:
            open_brackets.append(_PAIRS[sign])
        elif sign in _PAIRS.values() and (not open_brackets or open_brackets.pop() != sign):
            raise UserDataRefusedError(f"PowerShell cannot parse the script: unexpected token '{sign}'")
        if sign.isspace() or sign == ";":
            if word is not None:
                names[-1].append(word)
                word = None
            if sign in "\n;" and not open_brackets:
                names.append([])
        else:
            word = (word or "") + sign
        place += 1
    if word is not None:
        names[-1].append(word)
    if open_brackets:
        raise UserDataRefusedError(f"PowerShell cannot parse the script: missing closing '{open_brackets[-1]}'")
    return [words for words in names if words]


def _quoted(script: str, start: int) -> tuple[str, int]:
    """The text in quotes that begins at ``start``, and the place after it. A doubled quotation mark stands for one."""
    mark, place, value = script[start], start + 1, ""
    while place < len(script):
        if script[place] == mark:
            if script[place + 1 : place + 2] != mark:
                return value, place + 1
            place += 1
        elif script[place] == "`" and mark == '"':
            place += 1
        value += script[place : place + 1]
        place += 1
    raise UserDataRefusedError("PowerShell cannot parse the script: a string has no closing quotation mark")


def _bootstrap(words: list[str]) -> KubeletSettings:
    call = next(number for number, word in enumerate(words) if PROGRAM in word)
    argument: dict[str, str] = {}
    rest = iter(words[call + 1 :])
    for word in rest:
        name = word.removeprefix("-")
        if name == word or name not in PARAMETERS:
            raise UserDataRefusedError(f"{PROGRAM} has no parameter {word}")
        value = next(rest, None)
        if value is None:
            raise UserDataRefusedError(f"{PROGRAM}: -{name} has no value")
        argument[name] = value
    if not argument.get("EKSClusterName"):
        raise UserDataRefusedError(f"{PROGRAM} needs -EKSClusterName")
    settings = from_kubelet({}, [argument.get("KubeletExtraArgs", "")])
    dns = argument.get("DNSClusterIP")
    return replace(settings, cluster_dns=(dns,)) if dns and not settings.cluster_dns else settings
