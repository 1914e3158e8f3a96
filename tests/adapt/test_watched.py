"""Which calls of a group between machines go straight to the engine, and which are watched."""

from pathlib import Path

from jobs import run


def test_only_small_calls_are_not_watched(tmp_path: Path) -> None:
    run(2, Path(__file__).with_name("watched.py"), output=tmp_path)
