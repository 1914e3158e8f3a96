"""Horovod's own tests and examples, copied from a checkout with nothing changed but what they import."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

FACES = re.compile(r"^(\s*(?:from|import) )horovod(?=\.(?:common|keras|tensorflow)\b)", re.MULTILINE)
ALONE = re.compile(r"^(\s*import )horovod$", re.MULTILINE)


def import_changed(text: str) -> str:
    """The same program on Paceline. `horovod.runner`, Horovod's launcher, keeps its name: see stand_in."""
    return ALONE.sub(r"\1paceline.horovod as horovod", FACES.sub(r"\1paceline.horovod", text))


def copied(checkout: Path, part: str, target: Path) -> None:
    """Copy a folder of the checkout to `target`, with the imports of its Python files changed.

    Raises SystemExit if this is no checkout of Horovod.
    """
    if not (checkout / part).is_dir():
        raise SystemExit(
            f"{checkout} is no checkout of Horovod: it has no folder {part}; `make horovod-suite` gets one"
        )
    shutil.copytree(checkout / part, target)
    for file in target.rglob("*.py"):
        file.write_text(import_changed(file.read_text()))
