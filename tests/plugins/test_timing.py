"""The timing plugin: which rows it shows for a turn's numbers."""

from __future__ import annotations

import msgspec
import pytest
from fader_plugins.timing import FEW, PARTS, readings
from fader_plugins.turn import Difference, Numbers, Reading

FULL = Numbers(
    prompt_tokens=1300,
    reused_tokens=1204,
    processed_tokens=96,
    output_tokens=50,
    steps=50,
    ttft_ms=100.0,
    ttft_parts={"queue": 1.0, "encode": 2.0, "restore": 3.0, "prefill": 90.0, "first_sample": 4.0},
    ttfv_ms=110.0,
    tpot_ms=20.0,
    itl_p50_ms=19.0,
    itl_p95_ms=30.0,
    itl_n=49,
    decode_tps=50.0,
    prefill_tps=1066.0,
    load_ms=700.0,
    kv_bytes=2**20 * 180,
    rss_peak_bytes=2**20 * 512,
)


def rows(numbers: Numbers) -> dict[str, Reading]:
    return {row.key: row for row in readings(numbers)}


def test_values_and_units() -> None:
    """Each row carries its number; bytes become MiB; TTFT's parts stand below it."""
    got = {key: row.value for key, row in rows(FULL).items()}
    assert got == {
        "ttft": 100.0,
        **{f"ttft_{part}": FULL.ttft_parts[part] for part in PARTS},
        "ttfv": 110.0,
        "tpot": 20.0,
        "itl_p50": 19.0,
        "itl_p95": 30.0,
        "decode": 50.0,
        "prefill": 1066.0,
        "reuse": "1,204 reused + 96 new",
        "output": 50.0,
        "kv": 180.0,
        "rss": 512.0,
        "load": 700.0,
    }


def test_unknown_numbers_are_dashes() -> None:
    """Before anything is known every row is there with None, so that the overlay does not jump; the reply has no tokens."""
    assert {key: row.value for key, row in rows(Numbers()).items() if row.value is not None} == {"output": 0.0}
    assert set(rows(FULL)) == set(rows(Numbers()))


@pytest.mark.parametrize(("n", "doubtful"), [(FEW - 1, True), (FEW, False)])
def test_a_percentile_of_few_is_doubtful(n: int, doubtful: bool) -> None:
    """The 95th percentile prints its n and is greyed below twenty samples."""
    row = rows(msgspec.structs.replace(FULL, itl_n=n))["itl_p95"]
    assert doubtful == row.doubtful
    assert f"n={n}" in row.label


def test_a_difference_is_named() -> None:
    """Where a held prefix stopped being of use stands in the row."""
    numbers = msgspec.structs.replace(FULL, difference=Difference(1204, "a", "b"))
    assert rows(numbers)["reuse"].value == "1,204 reused + 96 new (differs at 1,204)"


def test_what_is_better() -> None:
    """Times and memory are better lower, rates higher; counts are neither."""
    better = {key: row.better for key, row in rows(FULL).items()}
    assert {"decode", "prefill"} == {key for key, way in better.items() if way == "higher"}
    assert {"reuse", "output"} == {key for key, way in better.items() if way == "neither"}
