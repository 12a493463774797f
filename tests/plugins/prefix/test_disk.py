"""Files of the disk tier: whole or ignored, within a budget, shared by several apps."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
from fader_backends.base import SessionState
from fader_plugins.prefix import files, folder
from fader_plugins.prefix.folder import Folder, name_of
from fader_plugins.prefix.radix import ids
from fader_plugins.prefix.shelf import Place

MINE, YOURS, OURS = Place("me", "k"), Place("you", "k"), Place(None, "k")
DATA = bytes(range(256)) * 8
BUDGET = 1 << 20


def state(count: int = 40, start: int = 0) -> SessionState:
    return SessionState(tuple(range(start, start + count)), "state key", DATA)


def written(disk: Folder, what: SessionState | None = None, place: Place = MINE, budget: int = BUDGET) -> Path:
    what = what or state()
    disk.write(place, what, ids(what.tokens), budget)
    assert disk.flush(10)
    return disk.path / name_of(place, ids(what.tokens))


@pytest.fixture
def disk(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "cache" / "prefixes")


def found(disk: Folder, place: Place = MINE, count: int = 100) -> list[tuple[int, int]]:
    return [(one.shared, one.length) for one in disk.nearest(place, ids(range(count)))]


def test_round_trip_in_another_app(disk: Folder) -> None:
    path = written(disk)
    other = Folder(disk.path)
    assert found(other, count=30) == [(30, 40)]
    assert other.read(MINE, path.name) == state()
    assert found(other, YOURS) == found(other, Place("me", "another")) == []
    assert (path.stat().st_mode & 0o77, disk.path.stat().st_mode & 0o77) == (0, 0) or os.name == "nt"


def test_a_longer_one_takes_its_place(disk: Folder) -> None:
    written(disk, state(40))
    written(disk, state(60))
    written(disk, state(50, start=500))
    assert found(disk) == [(60, 60), (0, 50)]
    assert disk.size()[0] == 2


@pytest.mark.parametrize("part", ["magic", "length", "header", "crc", "data"])
@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_damage_is_noticed_reported_and_removed(disk: Folder, part: str, harm: str) -> None:
    path = written(disk)
    whole = path.read_bytes()
    header = int.from_bytes(whole[8:12], "little")
    places = {"magic": 3, "length": 10, "header": 40, "crc": 12 + header + 2, "data": len(whole) - 100}
    at = places[part]
    path.write_bytes(whole[:at] if harm == "cut" else whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    other = Folder(disk.path)
    names = [one.value for one in other.nearest(MINE, ids(range(9)))]
    assert all(other.read(MINE, name) is None for name in names)
    (note,) = other.notes()
    assert path.name in note
    assert note.endswith("removed")
    assert not path.exists()
    assert other.notes() == []
    assert found(other) == []


def test_every_cut_is_noticed(disk: Folder) -> None:
    path = written(disk)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(files.Unusable):
            files.read(path, MINE)
    path.write_bytes(whole + b"x")
    with pytest.raises(files.Unusable, match="too long"):
        files.read(path, MINE)


def test_another_version_is_removed(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "VERSION", 2)
    path = written(disk)
    monkeypatch.undo()
    assert found(Folder(disk.path)) == []
    other = Folder(disk.path)
    assert found(other) == []
    assert not path.exists()


def test_versions_may_differ_in_their_fields(disk: Folder) -> None:
    """What a later version writes is named as such, whatever it holds."""
    path = written(disk)
    body = msgspec.msgpack.encode({"version": 7, "more": 1})
    head = files.MAGIC + len(body).to_bytes(4, "little") + body
    path.write_bytes(head + zlib.crc32(head).to_bytes(4, "little"))
    with pytest.raises(files.Unusable, match="version 7"):
        files.read(path, MINE)


def test_a_file_under_a_false_name_serves_nobody(disk: Folder) -> None:
    """Law 11: a name is a hint; what is in the file decides."""
    path = written(disk, place=YOURS)
    false = disk.path / name_of(MINE, ids(state().tokens))
    path.rename(false)
    assert found(disk) == []
    assert not false.exists()
    path = written(disk, place=YOURS)
    assert disk.read(MINE, path.name) is None
    assert "another conversation" in disk.notes()[-1]


def test_a_full_disk_ends_the_tier_with_a_note(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = written(disk)

    def full(file: BinaryIO, data: bytes) -> None:
        file.write(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "put", full)
    lost = written(disk, state(start=900))
    assert "No space left" in disk.problem
    assert ["nothing more is kept on disk: " + disk.problem] == disk.notes()
    assert sorted(disk.path.iterdir()) == [kept], "nothing half-written stays"
    monkeypatch.undo()
    assert not written(disk, state(start=900)).exists(), "it does not try again at every turn"
    assert disk.read(MINE, kept.name) == state(), "what is there can still be read"
    assert not lost.exists()


def test_room_is_left_on_the_disk(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "RESERVE_BYTES", 1 << 60)
    assert not written(disk).exists()
    assert "would be left" in disk.problem


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    disk = Folder(tmp_path / "file" / "prefixes")
    assert found(disk) == []
    written(disk)
    assert disk.problem
    assert len(disk.notes()) == 1


def test_anything_else_that_fails_is_said_too(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "write", lambda *_: 1 / 0)
    written(disk)
    assert "division" in disk.problem
    assert disk.notes()


def test_budget_least_recently_used_first_shared_last(disk: Folder) -> None:
    paths = [written(disk, state(start=100 * n), place=place) for n, place in enumerate((OURS, MINE, MINE, MINE))]
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (1e9 - 100 * age, 1e9 - 100 * age))
    assert disk.read(MINE, paths[1].name)
    disk.trim(paths[0].stat().st_size + paths[1].stat().st_size)
    assert [path.exists() for path in paths] == [True, True, False, False]
    disk.trim(0)
    assert disk.size() == (0, 0)


def test_many_small_files(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_FILES", 5)
    for n in range(9):
        written(disk, state(start=100 * n))
    assert disk.size()[0] == 5


def test_larger_than_the_budget_is_not_written(disk: Folder) -> None:
    assert not written(disk, budget=100).exists()
    assert disk.problem == ""


def test_what_a_dead_app_left_half_written_goes(disk: Folder) -> None:
    written(disk)
    for name, age in ((".old.part", 2 * folder.ABANDONED_SECONDS), (".new.part", 0.0)):
        (disk.path / name).write_bytes(b"x")
        os.utime(disk.path / name, (time.time() - age,) * 2)
    written(disk, state(60))
    assert not (disk.path / ".old.part").exists()
    assert (disk.path / ".new.part").exists()


def test_a_file_that_went_meanwhile(disk: Folder) -> None:
    path = written(disk)
    assert found(disk) == [(40, 40)]
    path.unlink()
    assert disk.read(MINE, path.name) is None
    assert found(disk) == []
    assert disk.notes() == []


APP = """
import random, sys
from pathlib import Path
from fader_backends.base import SessionState
from fader_plugins.prefix.folder import Folder
from fader_plugins.prefix.radix import ids
from fader_plugins.prefix.shelf import Place
disk, chance = Folder(Path(sys.argv[1])), random.Random(sys.argv[2])
for turn in range(150):
    place = Place(f"owner {chance.randrange(3)}", "k")
    tokens = tuple(range(chance.randint(1, 60)))
    mark = str((place.owner, len(tokens))).encode() * 50
    disk.write(place, SessionState(tokens, "k", mark), ids(tokens), 20000)
    for found in disk.nearest(place, ids(tokens)):
        state = disk.read(place, found.value)
        assert state is None or state.data == str((place.owner, len(state.tokens))).encode() * 50
    if chance.random() < 0.3:
        assert disk.flush(10)
assert disk.flush(10)
assert not disk.problem, disk.problem
assert not disk.notes(), disk.notes()
"""


@pytest.mark.slow
def test_two_apps_in_one_folder(disk: Folder) -> None:
    """They replace and evict each other's files; neither reads anything wrong, and nobody complains."""
    apps = [
        subprocess.Popen([sys.executable, "-c", APP, str(disk.path), name], stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    for app in apps:
        _, said = app.communicate(timeout=60)
        assert app.returncode == 0, said
    assert disk.size()[1] <= 2 * 20000
