from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from fader.lab import hardware
from fader.lab.evidence import Hardware


def test_this_machine_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "COPIED", 2**20)
    found = hardware.hardware()
    assert found.memory_bytes
    assert found.threads
    assert found.copy_gbps
    assert 0.01 < found.copy_gbps < 10_000
    assert found.system
    assert msgspec.json.decode(msgspec.json.encode(found), type=Hardware) == found


def test_bandwidth_is_the_best_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "COPIED", 1000)
    clock = iter([0, 500, 1000, 1250, 2000, 3000, 4000, 5000, 6000, 7000])
    assert hardware.copy_gbps(lambda: next(clock)) == 4.0


def test_the_processor_is_named(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Fast Chip 9000\n")
    assert hardware.cpu(info) == "Fast Chip 9000"


def test_a_machine_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (_ for _ in ()).throw(OSError))
    assert hardware.governor(tmp_path) == ""
    assert hardware.energy_source(tmp_path) == ""
    assert hardware.gpus() == ()
    assert hardware.load_average() is None


def test_governors_in_use_are_all_named(tmp_path: Path) -> None:
    for core, name in enumerate(("powersave", "performance", "powersave")):
        folder = tmp_path / f"devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{name}\n")
    assert hardware.governor(tmp_path) == "performance, powersave"


def package(root: Path, place: str, name: str, joules: float) -> Path:
    folder = root / "class/powercap" / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(name + "\n")
    (folder / "max_energy_range_uj").write_text("10000000\n")
    (folder / "energy_uj").write_text(f"{round(joules * 1e6)}\n")
    return folder


def test_joules_add_up_over_packages_and_past_the_end_of_a_counter(tmp_path: Path) -> None:
    package(tmp_path, "intel-rapl:0", "package-0", 9)
    package(tmp_path, "intel-rapl:0:0", "core", 5)
    package(tmp_path, "intel-rapl:1", "package-1", 1)
    energy = hardware.Energy(tmp_path)
    assert energy.joules() == 0
    package(tmp_path, "intel-rapl:0", "package-0", 2)
    package(tmp_path, "intel-rapl:0:0", "core", 7)
    package(tmp_path, "intel-rapl:1", "package-1", 1.5)
    assert energy.joules() == pytest.approx(3.5)
    assert hardware.energy_source(tmp_path) == "RAPL, processor packages"
    (tmp_path / "class/powercap/intel-rapl:1/energy_uj").unlink()
    assert energy.joules() is None


def test_gpus_come_from_torch_or_from_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="Card", total_memory=8 * 2**30)
    cuda = SimpleNamespace(device_count=lambda: 1, get_device_properties=lambda _: card)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert hardware.gpus() == ("Card, 8 GiB",)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(hardware, "_said", lambda *_: "Card, 8192 MiB, 550.54\nwarning\n")
    assert hardware.gpus() == ("Card, 8192 MiB, 550.54",)


def test_a_program_that_hangs_or_fails_is_no_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: sys.executable)
    assert hardware._said("x", "-c", "print('hello')") == "hello"
    assert hardware._said("x", "-c", "raise SystemExit(1)") == ""

    def hang(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("x", timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert hardware._said("x") == ""


def test_versions_of_what_is_installed() -> None:
    found = hardware.versions(("numpy", "surely-not-there"))
    assert list(found) == ["fader", "python", "numpy"]
