"""What the user names as a file is replaced if it is one, written through if it is not, and never another user's."""

from __future__ import annotations

import errno
import os
import pty
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from paceline.formats.files import open_file, resolved, write_file

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's files")
NOBODY = 65534


def trouble(path: Path) -> str:
    with pytest.raises(OSError) as raised:  # noqa: PT011  # the caller looks at the text
        write_file(path, "text")
    return str(raised.value.strerror)


def test_a_plain_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_text("before")
    file.chmod(0o640)
    with file.open() as reader:
        write_file(file, "after")
        assert reader.read() == "before"
    assert file.read_text() == "after" and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_and_leads_to_the_file(tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "other"
    other.symlink_to("folder/file")
    link.symlink_to(other)
    (tmp_path / "folder").mkdir()
    write_file(link, "text")
    assert link.is_symlink() and other.is_symlink()
    assert (tmp_path / "folder" / "file").read_text() == "text"
    os.write(descriptor := open_file(link), b"more")
    os.close(descriptor)
    assert (tmp_path / "folder" / "file").read_text() == "more"


@ROOT
def test_the_link_of_another_user_is_refused(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "report"
    victim.write_text("mine")
    link.symlink_to(victim)
    os.lchown(link, NOBODY, NOBODY)
    assert trouble(link) == f"{link} is a link of another user"
    for opened in (open_file, resolved):
        with pytest.raises(PermissionError, match="is a link of another user"):
            opened(link)
    assert victim.read_text() == "mine" and link.is_symlink()


def test_links_that_were_put_there_before_do_not_lead_away(tmp_path: Path) -> None:
    """Whatever name another user guesses for the file that is not finished yet."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".report.{os.getpid()}", f"report.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    write_file(tmp_path / "report", "text")
    assert victim.read_text() == "mine" and (tmp_path / "report").read_text() == "text"


def test_a_device_is_written_through() -> None:
    null = Path(os.devnull)
    before = null.stat().st_ino
    write_file(null, "text")
    os.close(open_file(null))
    assert null.stat().st_ino == before and null.is_char_device()


@pytest.mark.needs("a terminal")
def test_a_terminal_is_written_to() -> None:
    ours, theirs = pty.openpty()
    write_file(Path(os.ttyname(theirs)), "text\n")
    assert os.read(ours, 100) == b"text\r\n"
    os.close(ours)
    os.close(theirs)


def test_a_pipe_is_written_through_if_somebody_reads_it(tmp_path: Path) -> None:
    pipe, text, read = tmp_path / "pipe", "x" * 300_000, list[str]()
    os.mkfifo(pipe)
    assert trouble(pipe) == "nobody reads this pipe"
    descriptor = os.open(pipe, os.O_RDWR)  # with a writing end too, so that it has no end before the text
    with os.fdopen(descriptor, "rb") as file:
        reader = threading.Thread(target=lambda: read.append(file.read(len(text)).decode()))
        reader.start()
        write_file(pipe, text)
        reader.join()
    assert read == [text] and stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(OSError, match="it is not a plain file"):
        open_file(pipe)


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
def test_the_name_of_an_open_file_means_that_file_at_its_position(tmp_path: Path, name: str) -> None:
    program = (
        "import os; from pathlib import Path; from paceline.formats.files import write_file; "
        f"os.write(1, b'before\\n'); write_file(Path({name!r}), 'text\\n'); os.write(1, b'after\\n')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, timeout=100)
    assert (tmp_path / "out").read_text() == "before\ntext\nafter\n"


def test_what_can_be_no_file_is_refused(tmp_path: Path) -> None:
    assert trouble(tmp_path) == os.strerror(errno.EISDIR) == trouble(Path("/"))
    (tmp_path / "round").symlink_to("round")
    assert trouble(tmp_path / "round") == os.strerror(errno.ELOOP)
    assert trouble(tmp_path / "none" / "file") == os.strerror(errno.ENOENT)
