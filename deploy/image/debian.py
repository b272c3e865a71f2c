"""The base of the image: Debian's Python and what it needs, as files. No maintainer script ever runs."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.image.commands import ImageError, run

RELEASE = "bookworm"
DISTRIBUTION = "debian-12"
"""The same release, as scanners name it."""
PYTHON = "3.11"
"""The Python of this release of Debian."""
WANTED = (
    "base-files",
    "ca-certificates",
    f"libpython{PYTHON}-stdlib",
    "libstdc++6",  # numpy and highspy
    "media-types",
    "netbase",
    f"python{PYTHON}-minimal",
    "tzdata",
)
LEFT_OUT = frozenset(
    {
        "debconf",
        "dpkg",
        "libacl1",
        "libmd0",
        "libpcre2-8-0",
        "libselinux1",
        "libzstd1",
        "mawk",
        "openssl",
        "perl-base",
        "readline-common",
        "tar",
    }
)
"""Packages that the wanted ones need only when they are installed or configured, and what only those need."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TARGETS = "$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)"
FIELDS = r"${Package}\t${Version}\t${Architecture}\t${source:Package}\n"
PROGRAMS = ("bin", "sbin", "usr/bin", "usr/sbin")
REMOVED = (
    "etc/cron.daily",
    "etc/dpkg",
    "usr/lib/*/gconv",  # character sets for iconv, which Python does not use
    f"usr/lib/python{PYTHON}/idlelib",
    f"usr/lib/python{PYTHON}/lib2to3",
    f"usr/lib/python{PYTHON}/pydoc_data",
    f"usr/lib/python{PYTHON}/test",
    "usr/share/bug",
    "usr/share/debconf",
    "usr/share/gcc",
    "usr/share/gdb",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pixmaps",
    "usr/share/zoneinfo/posix",
    "usr/share/zoneinfo/right",
)
FILES = {
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n",
}
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, order=True)
class Package:
    """A Debian package whose files are in the image."""

    name: str
    version: str
    architecture: str
    source: str


def sources() -> list[str]:
    """Return the sources of the release in this machine's apt configuration, or none: mmdebstrap has a default then."""
    output = run("apt-get", "indextargets", "--format", TARGETS, "Created-By: Packages")
    return source_lines(output.splitlines(), KEYRING if KEYRING.exists() else None)


def source_lines(targets: Iterable[str], keyring: Path | None) -> list[str]:
    """Return one-line sources for Debian's own suites of the release; ``targets`` are in the format `TARGETS`."""
    suites = (RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security")
    option = f"[signed-by={keyring}] " if keyring else ""
    source_lines = dict.fromkeys(  # one line for each of the architectures becomes one line
        f"deb {option}{uri} {suite} main"
        for origin, suite, uri, component in (target.split() for target in targets if len(target.split()) == 4)
        if origin == "Debian" and suite in suites and component == "main"
    )
    # Without the release itself, its updates are not enough.
    return list(source_lines) if any(line.endswith(f" {RELEASE} main") for line in source_lines) else []


def fetch(folder: Path, mirrors: Iterable[str], architecture: str) -> None:
    """Download the wanted packages and all that they depend on into a folder; apt checks their signatures.

    None of them runs, so they may be those of another architecture.
    """
    folder.mkdir(parents=True)
    run(
        "mmdebstrap",
        "--variant=extract",
        f"--architectures={architecture}",
        f"--include={','.join(WANTED)}",
        "--format=null",
        f'--extract-hook=cp "$1"/var/cache/apt/archives/*.deb {shlex.quote(str(folder))}',
        RELEASE,
        "/dev/null",
        *mirrors,
    )


def unpack(folder: Path, root: Path) -> list[Package]:
    """Unpack the packages of a folder, except those to leave out, and return them.

    The record of each package goes to ``var/lib/dpkg/status.d``, where scanners of images look for it.
    """
    records = root / "var/lib/dpkg/status.d"
    records.mkdir(parents=True)
    packages = []
    for file in sorted(folder.rglob("*.deb")):
        package = Package(*run("dpkg-deb", "--show", f"--showformat={FIELDS}", file).rstrip("\n").split("\t"))
        if package.name in LEFT_OUT:
            continue
        run("dpkg-deb", "--extract", file, root)
        (records / package.name).write_text(run("dpkg-deb", "--field", file))
        packages.append(package)
    if not {package.name for package in packages}.issuperset(WANTED):
        raise ImageError(f"mmdebstrap did not fetch {', '.join(WANTED)} from Debian's {RELEASE}: run `apt-get update`.")
    return sorted(packages)


def reduce(root: Path) -> None:
    """Remove every program but Python and what no program reads, and write what maintainer scripts would write."""
    for path in _superfluous(root):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    bundle = b"".join(path.read_bytes() for path in sorted((root / "usr/share/ca-certificates").rglob("*.crt")))
    for name, content in {**FILES, CERTIFICATES: bundle.decode()}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "usr/bin/python3").symlink_to(f"python{PYTHON}")
    # Where OpenSSL looks for certificates.
    (root / "usr/lib/ssl").mkdir(parents=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to(f"/{CERTIFICATES}")
    (root / "tmp").mkdir(exist_ok=True)


def _superfluous(root: Path) -> Iterator[Path]:
    for folder in PROGRAMS:
        yield from [path for path in (root / folder).glob("*") if path.name != f"python{PYTHON}"]
    for pattern in REMOVED:
        yield from list(root.glob(pattern))
    documentation = [path for path in (root / "usr/share/doc").rglob("*") if path.is_file() or path.is_symlink()]
    # Licenses stay, and links to the folder of a package that has them.
    yield from [path for path in documentation if path.name != "copyright" and not path.is_dir()]
