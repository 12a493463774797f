"""Comparisons on disk: written, listed, opened, run again; a newer version's is refused; blind choices are counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from fader.compare import export, make
from fader.compare.report import report
from fader.compare.tally import standings, wilson
from fader.compare.values import VERSION, Comparison, decode, encode
from fader.store import Choice, Store
from fader_backends.errors import BadValue, StoreError, UnknownName

from tests.compare.conftest import MakeDesk
from tests.compare.desk import MAKERS, Desk

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "fader.db", lambda: AT)
    yield opened
    opened.close()


def compared(one: Desk, *changes: str) -> Comparison:
    one.run(*changes)
    assert one.side is not None
    return make.stored(one.side, AT, "test")


def test_written_opened_and_run_again(desk: MakeDesk, store: Store) -> None:
    """Opened, each column shows what it gave; run again, it gives the same."""
    comparison = compared(desk(), "temperature=0.5", "seed=3 max_tokens=8")
    number = store.put_comparison(encode(comparison), comparison.prompt, 2, None)
    assert [(one.id, one.title, one.columns, one.created) for one in store.comparisons()] == [
        (number, "tell me more", 2, AT)
    ]
    found = decode(store.comparison(number), str(number))
    assert found == comparison
    again = desk()
    columns = make.reopened(found, again.board, MAKERS)
    assert [(column.title, column.state) for column in columns] == [
        ("temperature=0.5", "done"),
        ("seed=3 max_tokens=8", "done"),
    ]
    want = [column.text for column in columns]
    figures = columns[0].figures()
    side = again.lay("")
    side.columns = columns
    side.start()
    again.work()
    assert [column.text for column in columns] == want
    assert columns[0].figures().mean_logprob == pytest.approx(figures.mean_logprob)


def test_a_column_that_cannot_run_any_more_still_shows_what_it_gave(desk: MakeDesk) -> None:
    comparison = compared(desk(), "temperature=0.5", "seed=3")
    gone = msgspec.structs.replace(comparison.columns[1], changes={"profile": "deleted"})
    comparison = msgspec.structs.replace(comparison, columns=(comparison.columns[0], gone))
    column = make.reopened(comparison, desk().board, MAKERS)[1]
    assert column.board is None
    assert column.failure is not None
    assert "deleted" in column.failure.title
    assert column.text


def test_a_comparison_in_place_of_itself(store: Store) -> None:
    number = store.put_comparison(b"{}", "one", 2, None)
    assert store.put_comparison(b"[]", "one", 3, None, number) == number
    assert (store.comparison(number), len(store.comparisons())) == (b"[]", 1)


def test_a_newer_version_is_refused(desk: MakeDesk, store: Store) -> None:
    """Politely, with the next step, and without touching it."""
    newer = encode(compared(desk(), "")).replace(b'"version":1', b'"version":%d' % (VERSION + 1), 1)
    number = store.put_comparison(newer, "x", 1, None)
    with pytest.raises(StoreError) as caught:
        decode(store.comparison(number), str(number))
    assert str(caught.value) == (
        f"Comparison {number} was stored by a newer Fader (form 2; this one knows 1). It was not touched. "
        "Update Fader to open it."
    )
    assert store.comparison(number) == newer


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"version":1}', b'{"version":"x"}'])
def test_a_damaged_one_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        decode(data, "4")


def test_one_that_is_not_there(store: Store) -> None:
    with pytest.raises(UnknownName, match="comparison '7'"):
        store.comparison(7)


def test_a_deleted_conversation_leaves_its_comparisons(store: Store) -> None:
    chat = store.create("test").id
    number = store.put_comparison(b"{}", "x", 2, chat)
    store.delete(chat)
    assert store.comparison(number) == b"{}"
    assert store.put_comparison(b"[]", "x", 2, chat, number) == number


def test_choices_are_counted(store: Store) -> None:
    """By hand: of three choices between a and b, and one of a, b, c, b won three."""
    for winner, shown in (("b", "ab"), ("b", "ab"), ("a", "ba"), ("b", "abc")):
        store.choose(winner, list(shown))
    assert store.choices()[0] == Choice(created=AT, winner="b", shown=("a", "b"))
    rows = {row.setting: row for row in standings(store.choices())}
    assert list(rows) == ["b", "a", "c"]
    assert [(row.shown, row.won, row.share) for row in rows.values()] == [(4, 3, 0.75), (4, 1, 0.25), (1, 0, 0.0)]
    assert rows["a"].expected == pytest.approx((3 / 2 + 1 / 3) / 4)


@pytest.mark.parametrize(("won", "times", "want"), [(0, 1, (0, 0.793)), (5, 10, (0.237, 0.763)), (10, 10, (0.722, 1))])
def test_wilson(won: int, times: int, want: tuple[float, float]) -> None:
    """Against published values of the 95 % interval."""
    assert wilson(won, times) == pytest.approx(want, abs=1e-3)


def test_exports(desk: MakeDesk, tmp_path: Path) -> None:
    """All three hold the question, every title and every reply; the page fetches nothing and runs nothing."""
    one = desk(load={"noise": 0.0})
    one.run("temperature=0.5", "seed=3", prompt="<b>say</b> *this* | that")
    assert one.side is not None
    told = report(make.stored(one.side, AT, "test"))
    for name in ("x.md", "x.json", "x.html"):
        export.write(told, tmp_path / name)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;say&lt;/b&gt; *this* | that" in page
    assert not [word for word in ("<script", "http", "src=", "@import", "url(", "<b>say") if word in page]
    assert page.count("temperature=0.5") == 1
    text = (tmp_path / "x.md").read_text(encoding="utf-8")
    assert "| tokens | 24 | 24 |" in text
    assert "> <b>say</b> *this* | that" in text
    found = msgspec.json.decode((tmp_path / "x.json").read_bytes())
    assert [column["text"] for column in found["columns"]] == ["<b>say</b> *this* | that"] * 2
    assert found["columns"][0]["figures"]["mean_logprob"] is not None


def test_an_export_that_cannot_be_meant(desk: MakeDesk, tmp_path: Path) -> None:
    told = report(compared(desk(), ""))
    with pytest.raises(BadValue, match=r"\.md, \.json or \.html"):
        export.write(told, tmp_path / "x.pdf")
    with pytest.raises(StoreError, match="Cannot write"):
        export.write(told, tmp_path / "nowhere" / "x.md")
