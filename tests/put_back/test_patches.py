"""Whether each fault can be put back into the code as it is. `make put-back` does so, which takes an hour."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from copied import ROOT, Copy, Unusable
from put_back import Patch, patches

pytestmark = pytest.mark.needs("a git checkout")


@pytest.mark.parametrize("patch", patches(), ids=lambda patch: patch.fault)
def test_it_applies(patch: Patch) -> None:
    done = subprocess.run(["git", "apply", "--check", str(patch.file)], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, f"derive {patch.file.name} anew from the code: {done.stderr}"


def test_python_takes_the_package_of_a_copy(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    code = "import paceline.horovod, paceline.errors, paceline._engine; print(paceline.errors.__file__)"
    assert copy.run([sys.executable, "-c", code], 60).strip() == str(tmp_path / "src/paceline/errors.py")


def test_a_patch_that_no_longer_applies_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.patch").write_text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    copied = tmp_path / "copy"
    copied.mkdir()
    with pytest.raises(Unusable, match=r"^old\.patch no longer applies: "):
        Copy(copied).apply(tmp_path / "old.patch")
