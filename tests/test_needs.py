"""What tests need is asked for by names that exist, and a skip says why and what would help."""

from __future__ import annotations

import ast
from pathlib import Path

import needs
import pytest

TESTS = Path(__file__).parent


def asked_for(path: Path) -> set[str]:
    """The names in `pytest.mark.needs(…)` and `skip_without(…)`."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in ("needs", "skip_without")]
    return {word.value for call in named for word in call.args if isinstance(word, ast.Constant)}


def test_every_name_is_known() -> None:
    names = set().union(*(asked_for(path) for path in TESTS.rglob("*.py")))
    assert "a lab" in names
    assert names <= {*needs.NEEDS, *needs.packages()}


def test_a_skip_says_why_and_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needs.NEEDS, "the moon", needs.Need(lambda: "it is\nfar away", "wait"))
    monkeypatch.setitem(needs.NEEDS, "the sun", needs.Need(lambda: None, "wait"))
    assert needs.missing("the moon") == "needs the moon: it is far away; to run it, wait"
    assert needs.missing("the sun") is None
    with pytest.raises(KeyError):
        needs.missing("the earth")


@pytest.mark.parametrize(
    ("strict", "everywhere", "refused"), [("1", True, True), ("1", False, False), ("", True, False)]
)
def test_a_strict_run_takes_no_skip_for_what_can_be_had(
    strict: str, everywhere: bool, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(needs.STRICT, strict)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(needs.NEEDS, "the moon", needs.Need(lambda: "far", "wait", everywhere))
    assert needs.refused("needs the moon: far; to run it, wait") is refused
    assert not needs.refused("torch is not installed")


def test_what_fails_is_quoted() -> None:
    assert needs._fails("true") is None
    assert needs._fails("false") == "`false` failed: exit code 1"
    assert "no-such-command" in (needs._fails("no-such-command") or "")
