"""Run clang-tidy on files that have changed since they passed it, or of which something has that they include.

    python scripts/tidy.py --jobs N FILE...

What counts is the content: a file that is merely newer, as after a change of branch, is not looked at again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "tidy"
PASSED = BUILD / "passed"
"""An empty file for each content that has passed, named by its key."""
SETTINGS = (BUILD / "compile_commands.json", ROOT / ".clang-tidy", ROOT / "requirements" / "test.lock")
"""How everything is compiled, what is checked, and by which version."""
INCLUDED = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
"""Headers of ours, which are named from `engine` on."""


@cache
def read(path: Path) -> bytes:
    return path.read_bytes()


def parts(file: Path) -> list[Path]:
    """The file and all headers of ours that it includes, directly or not."""
    found, left = {file}, [file]
    while left:
        for name in INCLUDED.findall(read(left.pop())):
            header = ROOT / "engine" / name.decode()
            if header not in found:
                found.add(header)
                left.append(header)
    return sorted(found)


def key(file: Path) -> str:
    """What everything comes to on which the verdict on a file depends."""
    found = sha256()
    for part in (*SETTINGS, *parts(file)):
        found.update(f"{part} {len(read(part))}\n".encode() + read(part))
    return found.hexdigest()


def passes(file: Path) -> bool:
    command = [Path(sys.executable).with_name("clang-tidy"), "-p", BUILD, "--quiet", file]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.stdout.buffer.write(done.stdout)
        return False
    (PASSED / key(file)).touch()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    PASSED.mkdir(parents=True, exist_ok=True)
    changed = [file for name in asked.files if not (PASSED / key(file := ROOT / name)).exists()]
    print(f"clang-tidy: {len(changed)} of {len(asked.files)} files have changed since they passed", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        if not all(list(pool.map(passes, changed))):
            sys.exit(1)


if __name__ == "__main__":
    main()
