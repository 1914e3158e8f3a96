"""Dumps: written whole, read back the same, bounded, and refused when they are something else."""

import json
import os
from pathlib import Path

import pytest
from event_rows import row

from paceline.observe.trace import dump
from paceline.observe.trace.event import events
from paceline.settings.settings import Settings


def test_read_gives_what_write_was_given(tmp_path: Path) -> None:
    groups = {5: dump.Group("world", (0, 1))}
    for rank in (1, 0):
        rows = [row(1, 5, 0), row(2, 5, 1, "barrier", state="failed")]
        dump.write(tmp_path / "new", rank, "host", 7 + rank, rows, size=2, groups=groups, reason="rank 3 left")
    first, second = dump.read(tmp_path / "new")
    assert (first.rank, first.host, first.pid, first.size, first.reason) == (0, "host", 7, 2, "rank 3 left")
    assert first.groups == groups
    assert first.events == events([row(1, 5, 0), row(2, 5, 1, "barrier", state="failed")])
    assert second.rank == 1
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "rank-00000.json",
        "rank-00001.json",
    ]


def test_only_the_newest_events_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "MAX_EVENTS", 3)
    dump.write(tmp_path, 0, "host", 1, [row(n, 5, n) for n in range(10)])
    assert [event.id for event in dump.read(tmp_path)[0].events] == [7, 8, 9]


def test_dump_follows_the_settings(tmp_path: Path) -> None:
    assert dump.dump([row(1, 5, 0)], Settings(), 0, 1) is None
    path = dump.dump([row(1, 5, 0)], Settings(trace=str(tmp_path)), 3, 4, reason="end")
    assert path == tmp_path / "rank-00003.json"
    (read,) = dump.read(tmp_path)
    assert (read.pid, read.size, read.reason) == (os.getpid(), 4, "end")


def test_dump_on_the_way_out_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert dump.dump([row(1, 5, 0)], Settings(trace=str(tmp_path / "file")), 0, 1) is None
    assert dump.dump([("nonsense",)], Settings(trace=str(tmp_path)), 0, 1) is None


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": "other"}', json.dumps({"format": dump.FORMAT, "rank": "x"}), "\x00\xff"],
)
def test_a_file_that_is_no_dump_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "rank-00000.json").write_text(content)
    with pytest.raises(ValueError, match=r"rank-00000\.json is not a dump"):
        dump.read(tmp_path)


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "1" + "0" * 30, "1" * 5000])
@pytest.mark.parametrize("field", ["rank", "written_ns", "end_ns"])
def test_a_number_that_nothing_can_be_reckoned_with_is_named(tmp_path: Path, number: str, field: str) -> None:
    text = dump.encode(77, "host", 1, [row(1, 5, 0, end_ns=77)])
    at = {"rank": '"rank":77', "end_ns": "77,"}.get(field) or f'"written_ns":{json.loads(text)["written_ns"]}'
    wrong = text.replace(at, at.rstrip("0123456789,").rstrip("0123456789") + number + "," * at.endswith(","), 1)
    (tmp_path / "rank-00000.json").write_text(wrong)
    with pytest.raises(ValueError, match=rf"rank-00000\.json is not a dump: {number[:40]} (is not a finite|has more)"):
        dump.read(tmp_path)


@pytest.mark.parametrize("wrong", [(1, 2), row(1, 5, 0)[:-1], ("1", *row(1, 5, 0)[1:]), (True, *row(1, 5, 0)[1:])])
def test_a_row_that_is_no_event_is_refused(wrong: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="event"):
        events([wrong])


def test_no_dumps_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no dumps"):
        dump.read(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        dump.read(tmp_path / "none")
