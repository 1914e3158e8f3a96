"""Run the README's two commands on bare systems, as people have them: a line for each system, kind and user.

    python3 scripts/door/door.py [--rows NAME...] [--json FILE] [--bind FOLDER...]

Needs root, debootstrap, setpriv and overlayfs. A system is made by debootstrap, from the mirror that this machine's apt
uses, with what the README asks for and nothing else, and stays in build/door. Each row works on a copy of it that is
thrown away, in a container or a chroot, as root or as an ordinary user, and each has something of its own that real
machines have.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "door"
RESULTS = Path("build/test/results.json")
BARE = "ca-certificates,python3,g++,make"
"""What the README asks for, on a Debian system; to install from the registry takes trusted certificates."""
FOR_USERS = ("python3-venv", "python3-dev")
"""What scripts/bootstrap asks an ordinary user to have installed."""
USER = 1000
HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
LOAD = 8
"""Processes that compute beside a row that has company."""
COMMANDS = ("make demo", "make test")
LINE = "{:10}{:6}{:11}{:11}{:>8}{:>8}{:>9}{:>8}  {}"
SECONDS = 5400
"""For one command, installation included."""


@dataclass(frozen=True)
class Row:
    """A system, who runs the commands how, and what is special there.

    before: words of the shell before each command. path: of the working copy, below the home. clone: with its history.
    again: the commands run a second time in the same tree.
    """

    suite: str
    user: str
    kind: str
    special: str
    before: str = ""
    path: str = "paceline"
    clone: bool = False
    again: bool = False
    terminal: bool = True
    load: int = 0

    @property
    def name(self) -> str:
        return f"{self.suite}-{self.user}-{self.kind}"


ROWS = (
    Row("bookworm", "root", "container", "a clone", clone=True),
    Row("bookworm", "user", "container", "an archive, in a folder named Grüße an alle", path="Grüße an alle"),
    Row("bookworm", "root", "chroot", "CI=true is set", before="export CI=true"),
    Row("bookworm", "user", "chroot", "umask 077", before="umask 077"),
    Row("trixie", "root", "container", "no pseudo-terminal", terminal=False),
    Row("trixie", "user", "container", "one CPU", before="taskset -pc 0 $$ >/dev/null"),
    Row("trixie", "root", "chroot", f"{LOAD} processes compute beside it", load=LOAD),
    Row("trixie", "user", "chroot", "each command twice", again=True),
)


def main() -> int:
    """Run the rows, and return 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", type=Path, help="write the rows here too")
    parser.add_argument("--bind", type=Path, nargs="+", default=[], help="folders of this machine that the systems see")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("door: bare systems are made and entered by root; run the command with sudo")
    if lacking := [name for name in ("debootstrap", "setpriv", "unshare") if shutil.which(name) is None]:
        sys.exit(f"door: install the commands {', '.join(lacking)}")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))  # what is mounted is unmounted
    rows, good = [], True
    print(LINE.format("system", "user", "kind", "command", "seconds", "passed", "skipped", "failed", "special"))
    for row in (row for row in ROWS if row.name in asked.rows):
        for told in run(row, asked.bind):
            rows.append(told)
            good = good and told["exit_code"] == 0
            counts = (told.get(key, "") for key in ("passed", "skipped", "failed"))
            end = "" if told["exit_code"] == 0 else f"; ended with {told['exit_code']}: {told['log']}"
            where, took = (row.suite, row.user, row.kind, told["command"]), f"{told['seconds']:.0f}"
            print(LINE.format(*where, took, *counts, row.special + end), flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    return int(not good)


def run(row: Row, binds: list[Path]) -> Iterator[dict]:
    """Run both commands in a fresh copy of the row's system. Yields what came of each."""
    with ExitStack() as stack:
        top = stack.enter_context(copy_of(system(row.suite)))
        owner = USER if row.user == "user" else 0
        home = Path("/home/user") if owner else Path("/root")
        cache = FOLDER / f"pip-{owner}"
        cache.mkdir(exist_ok=True)
        os.chown(cache, owner, owner)
        for folder in (*binds, cache):
            stack.enter_context(bound(folder, top / folder.relative_to("/")))
        if owner:
            (top / "etc/passwd").open("a").write(f"user:x:{owner}:{owner}::{home}:/bin/sh\n")
            inside(row, top, 0, "apt-get update -qq && apt-get install -qq -y " + " ".join(FOR_USERS), check=True)
        tree = home / row.path
        copy_project(row, top / tree.relative_to("/"))
        subprocess.run(["chown", "-R", f"{owner}:{owner}", top / home.relative_to("/")], check=True)
        for _ in range(row.load):
            words = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"]
            spinner = stack.enter_context(subprocess.Popen(words))
            stack.callback(spinner.kill)
        for command in [command for command in COMMANDS for _ in range(1 + row.again)]:
            begin = time.monotonic()
            log = FOLDER / f"{row.name}-{command.replace(' ', '-')}.log"
            shell = f'cd "{tree}" && {row.before or ":"} && PIP_CACHE_DIR={cache} {command}'
            code = inside(row, top, owner, shell, log=log)
            told = {"row": row.name, "special": row.special, "command": command, "exit_code": code, "log": str(log)}
            yield {**told, "seconds": time.monotonic() - begin, **results(top / tree.relative_to("/"), command)}


def results(tree: Path, command: str) -> dict:
    """The tests that passed, failed and skipped."""
    if not command.endswith("test") or not (tree / RESULTS).exists():
        return {}
    kinds = json.loads((tree / RESULTS).read_text())["kinds"].values()
    reasons = {reason: count for kind in kinds for reason, count in kind["skipped"].items()}
    failed = [name for kind in kinds for name in kind["failed"]]
    passed = sum(kind["passed"] for kind in kinds)
    return {"passed": passed, "skipped": sum(reasons.values()), "failed": len(failed), "why": reasons, "which": failed}


def inside(row: Row, top: Path, owner: int, shell: str, *, log: Path | None = None, check: bool = False) -> int:
    """Run a line of the shell in the row's system, and return its exit code."""
    home = "/home/user" if owner else "/root"
    passed = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
    env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={home}", *passed]
    words = [Path(__file__).with_name("bare-system"), row.kind, top, str(owner), *env, "/bin/sh", "-c", shell]
    with (log or Path(os.devnull)).open("wb") as output:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **({} if row.terminal else {"NO_TERMINAL": "1"})},
            timeout=SECONDS,
        )
    if check and done.returncode:
        raise RuntimeError(f"`{shell}` ended with {done.returncode} on {row.name}")
    return done.returncode


def system(suite: str) -> Path:
    """The folder of a bare system, made when it is not there."""
    made = FOLDER / suite
    if not made.exists():
        unfinished = FOLDER / f"{suite}.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        print(f"Making a bare {suite} in {made}", file=sys.stderr)
        words = ["debootstrap", "--variant=minbase", f"--include={BARE}", suite, str(unfinished), mirror()]
        with (FOLDER / f"{suite}.log").open("wb") as log:
            subprocess.run(words, check=True, stdout=log, stderr=subprocess.STDOUT)
        # What this machine trusts, and how it finds names.
        for file in ("etc/ssl/certs/ca-certificates.crt", "etc/resolv.conf"):
            shutil.copyfile(Path("/", file), unfinished / file)
        (unfinished / "etc/hosts").write_text(HOSTS)  # the smallest Debian 12 comes without, but no machine runs so
        unfinished.rename(made)
    return made


def mirror() -> str:
    """Debian's mirror in this machine's own sources."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    if not found:
        sys.exit("door: apt knows no mirror of Debian; run apt-get update")
    return found[0]


def copy_project(row: Row, to: Path) -> None:
    """The project as it is committed, as a clone or as an archive unpacks it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if row.clone:
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, to], check=True)
        return
    to.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "--extract", "--directory", to], input=archive, check=True)


@contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    """A folder with the same content; what is written there is thrown away."""
    work = FOLDER / "row"
    shutil.rmtree(work, ignore_errors=True)
    upper, scratch, merged = (work / name for name in ("upper", "scratch", "merged"))
    for each in (upper, scratch, merged):
        each.mkdir(parents=True)
    options = f"lowerdir={folder},upperdir={upper},workdir={scratch}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
    try:
        yield merged
    finally:
        subprocess.run(["umount", merged], check=True)
        shutil.rmtree(work)


@contextmanager
def bound(folder: Path, to: Path) -> Iterator[None]:
    """The folder at another place too."""
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", folder, to], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", to], check=True)


if __name__ == "__main__":
    sys.exit(main())
