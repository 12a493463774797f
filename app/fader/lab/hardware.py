"""What this machine is, and which versions run on it. A fact that cannot be had is None or empty, never a guess.

Knows operating systems, no models.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil

from .. import __version__
from .evidence import Hardware

COPIED = 64 * 2**20
"""Bytes per copy: more than a core's share of any cache."""
COPIES = 5
LIBRARIES = ("llama-cpp-python", "torch", "transformers", "numpy", "msgspec", "pluggy", "textual")
SYS = Path("/sys")
PATIENCE = 5.0
"""Seconds a program that is asked for facts may take."""


def hardware(nanoseconds: Callable[[], int] = time.perf_counter_ns) -> Hardware:
    """Return what can be told of this machine, in well under a second. Runs a copy in memory for its bandwidth."""
    return Hardware(
        system=" ".join(part for part in (platform.system(), platform.release(), platform.machine()) if part),
        cpu=cpu(),
        cores=psutil.cpu_count(logical=False),
        threads=psutil.cpu_count(),
        memory_bytes=psutil.virtual_memory().total,
        governor=governor(),
        load_average=load_average(),
        copy_gbps=copy_gbps(nanoseconds),
        gpus=gpus(),
        energy=energy_source(),
    )


def load_average() -> float | None:
    """Return the load of the last minute; None where the system keeps none."""
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def cpu(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name; empty where it cannot be told."""
    with suppress(OSError):
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            key, colon, value = line.partition(":")
            if colon and key.strip() in ("model name", "Model", "Hardware"):
                return value.strip()
    if sys.platform == "darwin":
        return _said("sysctl", "-n", "machdep.cpu.brand_string")
    if sys.platform == "win32":
        return _registered()
    return platform.processor()


def governor(root: Path = SYS) -> str:
    """Return how clock speeds are chosen, all that are in use; empty where that cannot be told."""
    found = set()
    for path in root.glob("devices/system/cpu/cpu*/cpufreq/scaling_governor"):
        with suppress(OSError):
            found.add(path.read_text(encoding="ascii").strip())
    return ", ".join(sorted(found))


def copy_gbps(nanoseconds: Callable[[], int]) -> float:
    """Return how fast one core copies memory: 1e9 bytes copied per second, the best of a few copies."""
    source = np.ones(COPIED, dtype=np.uint8)
    target = np.empty_like(source)
    np.copyto(target, source)  # pages are handed out at the first touch
    best = 0.0
    for _ in range(COPIES):
        start = nanoseconds()
        np.copyto(target, source)
        best = max(best, COPIED / max(nanoseconds() - start, 1))
    return best


def gpus() -> tuple[str, ...]:
    """Return the GPUs' names with memory and driver: from torch where it is loaded, else from nvidia-smi."""
    torch = sys.modules.get("torch")
    if torch is not None:
        with suppress(RuntimeError, AttributeError, AssertionError):
            found = [torch.cuda.get_device_properties(place) for place in range(torch.cuda.device_count())]
            if found:
                return tuple(f"{one.name}, {one.total_memory / 2**30:.0f} GiB" for one in found)
    rows = _said("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").splitlines()
    return tuple(row.strip() for row in rows if row.count(",") == 2)


def versions(libraries: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the versions of Fader, Python and of those libraries that are installed. Imports none of them."""
    found = {"fader": __version__, "python": platform.python_version()}
    for name in libraries:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def energy_source(root: Path = SYS) -> str:
    """Return where joules can be read; empty where they cannot."""
    return "RAPL, processor packages" if Energy(root).joules() is not None else ""


class Energy:
    """Joules that the processor packages have used (Linux, RAPL through powercap); everything on the machine counts."""

    def __init__(self, root: Path = SYS) -> None:
        self._packages = [
            path
            for path in sorted(root.glob("class/powercap/*:*"))
            if _read(path / "name").startswith("package-") and path.name.count(":") == 1
        ]
        self._last: dict[Path, int] = {}
        self._total = 0

    def joules(self) -> float | None:
        """Return the joules since the first call (which gives 0), counters that wrapped around included; None: unreadable."""
        for path in self._packages:
            now = _read(path / "energy_uj")
            if not now.isdigit():
                return None
            used = int(now) - self._last.get(path, int(now))
            if used < 0:
                used += int(_read(path / "max_energy_range_uj") or 0)
            self._total += max(used, 0)
            self._last[path] = int(now)
        return self._total / 1e6 if self._packages else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _said(program: str, *arguments: str) -> str:
    """Return what a program prints; empty where it is not there, fails, or takes long."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _registered() -> str:
    """Return the processor's name from the registry of Windows."""
    if sys.platform != "win32":
        return ""
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    except OSError:
        return platform.processor()
