"""Bundles on disk: what is sealed is what is opened, and what came from outside is not trusted."""

from __future__ import annotations

import zipfile
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from fader.lab import archive, bundle
from fader.lab.evidence import Manifest
from fader_backends.errors import BadValue, StoreError, UnknownName


@pytest.fixture
def made(tmp_path: Path) -> bundle.Bundle:
    manifest = Manifest(id="20260101-0000-echo", created="2026-01-01T00:00:00+00:00", what="echo", workload="chat")
    return bundle.make(tmp_path / "lab", manifest, {"workload.toml": "x = 1\n", "profiles/a.toml": "y = 2\n"})


def test_what_was_sealed_is_opened(made: bundle.Bundle) -> None:
    opened = bundle.load(made.folder)
    assert opened == made
    assert set(opened.manifest.files) == {"workload.toml", "profiles/a.toml"}


def test_a_changed_byte_is_named(made: bundle.Bundle) -> None:
    (made.folder / "workload.toml").write_bytes(b"x = 2\n")
    with pytest.raises(StoreError, match=r"workload\.toml is not what was measured"):
        bundle.load(made.folder)


def test_a_missing_file_is_named(made: bundle.Bundle) -> None:
    (made.folder / "profiles" / "a.toml").unlink()
    with pytest.raises(StoreError, match=r"a\.toml is missing"):
        bundle.load(made.folder)


def test_a_newer_schema_is_refused(made: bundle.Bundle) -> None:
    path = made.folder / "manifest.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "schema": 2}))
    with pytest.raises(StoreError, match=r"newer Fader \(schema 2; this one knows 1\)"):
        bundle.load(made.folder)


def test_a_damaged_manifest_is_named(made: bundle.Bundle) -> None:
    (made.folder / "manifest.json").write_bytes(b'{"schema": 1, "id": 3}')
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        bundle.load(made.folder)


def test_names_mean_bundles(made: bundle.Bundle, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    for name in ("20260101-0000-echo", "2026", "last", str(made.folder)):
        assert bundle.find(name, lab) == made.folder
    for name in ("nope", ""):
        with pytest.raises(UnknownName, match=f"unknown bundle '{name}'"):
            bundle.find(name, lab)


def test_what_fits_several_says_which(made: bundle.Bundle, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    bundle.make(lab, msgspec.structs.replace(made.manifest, id="20260101-0001-echo"), {})
    with pytest.raises(BadValue, match="'2026' fits 2 bundles: 20260101-0000-echo, 20260101-0001-echo"):
        bundle.find("2026", lab)


def test_ids_sort_as_they_were_made(tmp_path: Path) -> None:
    """To a second, whatever comes after; in the same second a number keeps them apart."""
    names = [bundle.new_id(datetime(2026, 1, 1, 0, 0, second), word, tmp_path) for second, word in enumerate("zya")]
    assert names == sorted(names)
    (tmp_path / names[0]).mkdir()
    assert bundle.new_id(datetime(2026, 1, 1), "z", tmp_path) == f"{names[0]}-2"


def test_nothing_stays_of_one_that_cannot_be_made(
    made: bundle.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise StoreError(f"Cannot write {path}: No space left on device.")

    monkeypatch.setattr(bundle, "write", full)
    with pytest.raises(StoreError, match="No space left"):
        bundle.make(tmp_path / "other", made.manifest, {"workload.toml": ""})
    assert list((tmp_path / "other").iterdir()) == []


def test_a_zip_and_back(made: bundle.Bundle, tmp_path: Path) -> None:
    path = tmp_path / "one.zip"
    archive.pack(made.folder, path)
    with bundle.opened(str(path), tmp_path / "lab") as opened:
        assert opened.manifest == made.manifest
        assert (opened.folder / "workload.toml").read_text("utf-8") == "x = 1\n"


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "C:\\out.txt", "..\\out.txt"])
def test_a_zip_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/manifest.json", "{}")
        file.writestr(name, "out")
    (tmp_path / "in").mkdir()
    with pytest.raises(BadValue, match="leaves its folder"):
        archive.unpack(path, tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []
    assert not (tmp_path / "out.txt").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    link = zipfile.ZipInfo("a/link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(link, "/etc/passwd")
    with pytest.raises(BadValue, match="leaves its folder"):
        archive.unpack(path, tmp_path / "in")


def test_a_huge_zip_is_refused_whatever_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    monkeypatch.setattr(archive, "BLOCK", 100)
    path = tmp_path / "huge.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/manifest.json", b"0" * 2000)
    with pytest.raises(BadValue, match="would unpack to"):
        archive.unpack(path, tmp_path / "in")
    data = path.read_bytes().replace((2000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(BadValue):
        archive.unpack(path, tmp_path / "in")


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.zip"
    path.write_bytes(b"no zip")
    with pytest.raises(BadValue, match="not a sound zip"):
        archive.unpack(path, tmp_path / "in")
