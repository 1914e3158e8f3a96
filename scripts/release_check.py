"""Check that a release would work: build the sdist, and from it a wheel for every Python; try each wheel.

cibuildwheel needs containers; here each wheel is built in a plain environment, and its manylinux tag says on which
systems it runs. `wheel_check` tries a wheel: two processes all-reduce from it without compiler or torch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheel_check import ROOT, check_demo, check_instruments, check_modules, launch_ranks, pip, run_ranks

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
TOOLS = Path(sys.executable).parent
"""Where auditwheel, build and twine are: this program runs in their environment."""


def interpreter(version: str) -> Path | None:
    """A Python of this version, from PATH or from pyenv, that can make environments and has its headers."""
    usable = (
        f"import ensurepip, os, sys, sysconfig, venv; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}) "
        "or not os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    )
    on_path = shutil.which(f"python{version}")
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in candidates:
        if subprocess.run([candidate, "-c", usable], stderr=subprocess.DEVNULL).returncode == 0:
            return candidate
    return None


def build_sdist(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT], check=True, stdout=sys.stderr)
    (sdist,) = folder.glob("paceline-*.tar.gz")
    return sdist


def check_tag(wheel: Path) -> str:
    """The manylinux tag with the oldest systems that the wheel runs on."""
    shown = subprocess.run([TOOLS / "auditwheel", "show", "--json", wheel], check=True, capture_output=True, text=True)
    tag: str = json.loads(shown.stdout)["overall_tag"]
    if not tag.startswith("manylinux"):
        sys.exit(f"release check: {wheel.name} should fit a manylinux tag, and auditwheel finds {tag}")
    return tag


def check_wheel(version: str, python: Path, sdist: Path, folder: Path) -> Path:
    environment = folder / "venv"
    subprocess.run([python, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    pip(python, "wheel", sdist, "--no-deps", "--wheel-dir", folder)
    (wheel,) = folder.glob("paceline-*.whl")
    check_modules(wheel)
    pip(python, "install", wheel, "--constraint", "requirements/demo.lock")
    run_ranks(python, folder)
    launch_ranks(python, folder)
    check_demo(python)
    check_instruments(python, folder)
    print(f"Python {version}: {wheel.name} works, and fits {check_tag(wheel)}", flush=True)
    return wheel


def main() -> None:
    pythons = {version: python for version in VERSIONS if (python := interpreter(version)) is not None}
    if missing := [version for version in VERSIONS if version not in pythons]:
        sys.exit(
            f"release check: Python {', '.join(missing)}, with its headers and venv, should be on PATH or in pyenv, "
            "because a release has a wheel for each"
        )
    with tempfile.TemporaryDirectory(prefix="paceline-release-") as name:
        folder = Path(name)
        sdist = build_sdist(folder)
        built = [sdist]
        for version, python in pythons.items():
            (folder / version).mkdir()
            built.append(check_wheel(version, python, sdist, folder / version))
        subprocess.run([TOOLS / "twine", "check", "--strict", *built], check=True)
    print("release check: passed")


if __name__ == "__main__":
    main()
