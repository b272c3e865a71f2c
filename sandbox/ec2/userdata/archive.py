"""User data as cloud-init takes it apart: a MIME archive, or one document."""

from __future__ import annotations

import email
import subprocess
from email.message import Message

from sandbox.ec2.userdata.settings import UserDataRefusedError

SHELL = "text/x-shellscript"
SECONDS = 10.0


def scripts(text: str) -> list[str]:
    """The shell scripts in user data, in order.

    Raises:
        UserDataRefusedError: the archive is broken.
    """
    stripped = text.lstrip()
    if not stripped.lower().startswith(("mime-version:", "content-type:")):
        return [stripped] if stripped.startswith("#!") else []
    archive = email.message_from_string(stripped)
    if archive.is_multipart():
        return [_text(part) for part in archive.walk() if part.get_content_type() == SHELL]
    if archive.get_content_maintype() == "multipart":
        raise UserDataRefusedError("cloud-init finds no part in the MIME archive: its boundary does not occur")
    return [_text(archive)] if archive.get_content_type() == SHELL else []


def check_scripts(text: str) -> list[str]:
    """The shell scripts in user data, each of which bash can parse. It does not run them.

    Raises:
        UserDataRefusedError: bash cannot parse a script. On AWS, the node of such a script may join without its effect.
    """
    names = scripts(text)
    for script in names:
        first, _, _ = script.partition("\n")
        if first.startswith("#!") and not first.split("/")[-1].split(" ")[-1].endswith("sh") and "bash" not in first:
            continue
        try:
            answer = subprocess.run(
                ["bash", "-n"], input=script, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UserDataRefusedError(f"bash did not parse a script within {SECONDS:g} s") from error
        if answer.returncode != 0:
            raise UserDataRefusedError(f"bash cannot parse a script: {answer.stderr.strip()}")
    return names


def _text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
