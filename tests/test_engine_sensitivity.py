"""The record of the engine's constants, and the script that measures what they cost when they are wrong."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "studies" / "engine_sensitivity.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_sensitivity", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_constant_of_the_record_is_measured_somewhere(script: ModuleType) -> None:
    measured = {name for area in script.areas() for name in area.constants}
    assert measured == set(script.kinds())


def test_what_was_found_takes_the_place_of_what_stood_there(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "constants.hpp"
    monkeypatch.setattr(script, "RECORDS", [record])
    text = (
        "// Seconds. Found: by hand. Off by 2: {}; it adapts.\n"
        "inline constexpr double kOne = 2;\n\n"
        "// Two of them.\n"
        "// Off by 2: {}.\n"
        "inline constexpr int kTwo{{1}};\n"
        "inline constexpr int kThree{{1}};\n\n"
        "// Off by 2: as many seconds.\n"
        "inline constexpr int kFour{{1}};\n"
    )
    record.write_text(text.format("not measured", "not measured"))
    for one in ("1.20 times as long at worst (half, all_reduce 8 bytes, 2 ranks)", "within noise (2 ranks)"):
        script.record({"kOne": one, "kTwo": one, "kThree": "within noise (x)", "kFour": one})
        words = record.read_text().replace("\n// all_reduce", " all_reduce")
        assert words == text.format(one, f"kTwo {one}, kThree within noise (x)")
