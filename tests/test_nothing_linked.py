"""What the wheel holds links the C++ runtime and nothing else: neither CUDA nor a framework."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

RUNTIME = re.compile(r"(libstdc\+\+|libm|libgcc_s|libc|libpthread|libdl|librt|ld-linux-[a-z0-9-]+)\.so\.\d+")


def modules() -> list[Path]:
    spec = find_spec("paceline._engine")
    assert spec is not None and spec.origin is not None
    return sorted(Path(spec.origin).parent.glob("*.so"))


@pytest.mark.needs("readelf")
@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name.partition(".")[0])
def test_only_the_runtime_is_linked(module: Path) -> None:
    dynamic = subprocess.run(["readelf", "-d", module], check=True, capture_output=True, text=True, timeout=150).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    assert needed, "readelf names no library at all"
    assert [name for name in needed if not RUNTIME.fullmatch(name)] == []
