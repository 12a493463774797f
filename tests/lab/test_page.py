from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import msgspec
import pytest
from fader.lab.page import page
from fader.lab.svg import bars, curves
from fader.lab.values import Compared, Cost, Figure, GateResult, Part, Report, Summary

NASTY = '<script>alert("x")</script>&\'"'
SIDE = Summary(n=12, mean=2.0, p50=2.0, p95=3.0, p99=3.1, low=1.0, high=3.2, curve=(1.0, 2.0, 3.2))


def report(text: str = "said") -> Report:
    compared = Compared(statistic="p50", ratio=0.5, low=0.4, high=0.6, p=0.001, aa=1.01, verdict="better")
    return Report(
        schema=1, id=text, created=text, what=text, why=text, reportable=True, marks=(text,), conclusion=text,
        findings=(text,), phase_answer=(text,), cost_answer=(text,), stop_answer=(text,), tails=(text,), odd=(text,),
        limits=(text,), method=(text,), about={text: text},
        figures=(
            Figure(metric="ttft_ms", label=text, unit=text, better="lower", sample="run", a=SIDE, b=SIDE, compared=(compared,)),
            Figure(metric="tpot_ms", label="TPOT", unit="ms", better="lower", sample="run", case=text, a=SIDE),
        ),
        parts=(Part(whole="ttft", condition="cold", name=text, a=1.0, b=2.0),),
        costs=(Cost(name=text, unit=text, a=1.0, b=None, note=text),),
        trials=(), same=None, gates=(GateResult(gate=text, holds=None, said=text),),
    )  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_nothing_of_a_bundle_becomes_markup() -> None:
    """The tags of a page are the same whatever the texts are."""
    harmless, nasty = Tags(), Tags()
    harmless.feed(page(report()))
    nasty.feed(page(report(NASTY)))
    assert nasty.tags == harmless.tags
    assert "script" not in nasty.tags


def test_the_page_needs_nothing_else() -> None:
    text = page(report())
    tags = Tags()
    tags.feed(text)
    assert tags.links == []
    assert not re.findall(r"url\(|@import|<link|<iframe|<img", text)
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text


def test_what_the_report_says_is_on_the_page() -> None:
    text = page(report())
    for field in ("phase", "cost", "stops", "Tails", "Odd inputs", "Limits", "Method", "Gates", "Plots"):
        assert field in text
    assert "× 0.50 (0.40 to 0.60)" in text
    assert '<span class="few">3.00 said</span>' in text
    assert "× 1.010" in text
    assert "not judged" in text
    assert text.count("<svg") == 2


def test_a_report_without_a_comparison_has_a_page() -> None:
    bare = msgspec.structs.replace(report(), parts=(), costs=(), gates=(), figures=report().figures[1:], marks=())
    assert "Plots" not in page(bare)
    assert "Gates" not in page(bare)


@pytest.mark.parametrize("drawn", [curves({"a": [1, 2, 3], "b": [3.0]}, NASTY), bars({NASTY: {NASTY: 1.0}}, "ms")])
def test_drawings_are_sound_xml(drawn: str) -> None:
    assert ET.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"


def test_lines_stay_inside_the_drawing() -> None:
    drawn = ET.fromstring(curves({"a": [5, 5, 5], "b": [5, 50]}, "ms"))
    points = [
        point.split(",")
        for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")
        for point in line.attrib["points"].split()
    ]
    assert len(points) == 5
    assert all(0 <= float(x) <= 320 and 0 <= float(y) <= 160 for x, y in points)


def test_nothing_is_drawn_of_nothing() -> None:
    assert curves({"a": ()}, "ms") == bars({"a": {}}, "ms") == ""
