"""Inputs that are made up: a point in the space of prompts and circumstances, its text, and its workload.

Knows words of several scripts; runs nothing. Equal points and seeds give equal texts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from .workload import ROUND, Case, WarmUp, Workload

Script: TypeAlias = Literal["latin", "cyrillic", "greek", "chinese", "arabic", "emoji", "code", "digits"]
WORDS: dict[Script, str] = {
    "latin": "river stone lamp winter ledger harbour quiet seven bridge copper window under morning letter salt before",
    "cyrillic": "река камень лампа зима книга гавань тихо семь мост медь окно утро письмо соль перед дорога",
    "greek": "ποτάμι πέτρα λάμπα χειμώνας βιβλίο λιμάνι ήσυχα επτά γέφυρα χαλκός παράθυρο πρωί γράμμα αλάτι πριν δρόμος",
    "chinese": "河流 石头 灯火 冬天 账本 港口 安静 七月 桥梁 铜器 窗户 早晨 书信 海盐 之前 道路",
    "arabic": "نهر حجر مصباح شتاء كتاب ميناء هدوء سبعة جسر نحاس نافذة صباح رسالة ملح قبل طريق",
    "emoji": "🌊 🪨 💡 ❄️ 📒 ⚓ 🤫 7️⃣ 🌉 🥉 🪟 🌅 ✉️ 🧂 ⏪ 🛣️",
    "code": "if(x): return y[i] += 1; def f(a,b): {k:v} != None while True: print(s) 0xFF <<= 2 [i for i in r]",
    "digits": "17 4096 3.14 -8 1e-9 0x1F 2026-01-31 99.5% 12:45 7/8 1,024 0 55 -0.5 1000000 42",
}
PHRASE = 8
"""Words that are repeated together."""
SCALES: dict[str, Sequence[Any]] = {
    "prompt": (4, 16, 64, 160, 400),
    "output": (8, 16, 32, 64, 128),
    "script": tuple(WORDS),
    "repetition": (0.0, 0.25, 0.5, 0.75, 1.0),
    "temperature": (0.0, 0.4, 0.8, 1.2, 1.6),
    "beside": (False, True),
    "warm": (False, True),
}
"""Dimension -> its values, the plainest first."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One input and its circumstances."""

    prompt: int = 64
    """Words."""
    output: int = 32
    """Tokens."""
    script: Script = "latin"
    repetition: float = 0.0
    """Share of phrases that repeat an earlier one."""
    temperature: float = 0.0
    beside: bool = False
    """Whether a second prompt arrives while the reply streams."""
    warm: bool = False
    """Whether it is asked for the second time."""

    @property
    def size(self) -> tuple[int, int]:
        """How much there is to read: words and tokens first, then dimensions that are not at their plainest."""
        plain = sum(getattr(self, name) != SCALES[name][0] for name in SCALES if name not in ("prompt", "output"))
        return self.prompt + self.output, plain

    def told(self) -> str:
        """Return it in words."""
        parts = [
            f"a prompt of {self.prompt} words ({self.script}{f', {self.repetition:.0%} repeated' if self.repetition else ''})",
            f"a reply of {self.output} tokens",
            f"temperature {self.temperature:g}",
            "asked for the second time" if self.warm else "never seen before",
        ]
        return ", ".join(parts) + (", another prompt beside it" if self.beside else "")


def text(point: Point, seed: int) -> str:
    """Return the point's prompt; its beginning tells rounds apart, so that nothing of it was seen before."""
    generator = random.Random(f"{seed} {point.prompt} {point.script} {point.repetition}")
    words, phrases = WORDS[point.script].split(), list[list[str]]()
    count = 0
    while count < point.prompt:
        if phrases and generator.random() < point.repetition:
            phrase = generator.choice(phrases)
        else:
            phrase = [generator.choice(words) for _ in range(min(PHRASE, point.prompt - count))]
        phrases.append(phrase[: point.prompt - count])
        count += len(phrases[-1])
    return f"{ROUND} " + " ".join(word for phrase in phrases for word in phrase)


def workload(point: Point, seed: int, name: str, fixed: Sequence[str] = ()) -> Workload:
    """Return the point as a workload of one case; settings in `fixed` are left as they are."""
    settings: dict[str, str | bool | int | float] = {"sampler.on": True, "sampler.temperature": point.temperature}
    case = Case(
        name=name,
        turns=[text(point, seed)],
        again=point.warm,
        beside=text(point, seed + 1) if point.beside else "",
        after=1,
    )
    return Workload(
        name=name,
        summary=point.told(),
        output=point.output,
        settings={key: value for key, value in settings.items() if key not in fixed},
        warm_up=WarmUp(turns=[text(point, seed + 2)]),
        case=[case],
    )


def anywhere(generator: random.Random, dimensions: Sequence[str]) -> Point:
    """Return a point at random in these dimensions, at its default in others."""
    return Point(**{name: generator.choice(SCALES[name]) for name in dimensions})


def near(point: Point, generator: random.Random, dimensions: Sequence[str]) -> Point:
    """Return a point that differs in one dimension or two: a step along a scale, another script."""
    changed: dict[str, Any] = {}
    for name in generator.sample(list(dimensions), generator.choice((1, 1, 2))):
        scale = SCALES[name]
        place = scale.index(getattr(point, name)) if getattr(point, name) in scale else 0
        steps = [one for one in (place - 1, place + 1) if 0 <= one < len(scale)]
        changed[name] = generator.choice(scale) if name == "script" else scale[generator.choice(steps)]
    return msgspec.structs.replace(point, **changed)


def smaller(point: Point, dimensions: Sequence[str]) -> list[Point]:
    """Return the points that are plainer in one dimension, the shortest first."""
    found = []
    for name in dimensions:
        scale = SCALES[name]
        place = scale.index(getattr(point, name)) if getattr(point, name) in scale else 0
        if place:
            found.append(msgspec.structs.replace(point, **{name: scale[0 if name == "script" else place - 1]}))
    return sorted(found, key=lambda one: one.size)
