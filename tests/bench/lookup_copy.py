"""What prompt lookup gains where a text is copied, and what it costs where nothing repeats.

Knows the plugin by its switch only.
"""

from __future__ import annotations

import statistics

from fader_backends.base import Message
from fader_plugins.turn import DraftNumbers

from tests.bench.harness import Measure, Options, Outcome, alternate
from tests.bench.sides import LENGTH, THREADS, Local, Reply, local

COPY = 300
PROSE = 300
TEXT = """The old lighthouse stood at the end of a narrow road above the grey sea. Every evening the keeper climbed ninety \
steps, cleaned the glass with a soft cloth, and lit the lamp before the fishing boats came home. His daughter wrote the \
name of each boat into a green book, beside the hour and the direction of the wind. In October a storm took the bridge, \
and for eleven days nobody could bring them bread, oil or letters. They ate potatoes, burned driftwood, and counted the \
ships by their bells. On the twelfth day a boy rowed across the bay with a basket on his knees and salt in his hair. He \
brought cheese, candles, two newspapers and a message from the harbour master. The message said that the council had \
bought an electric lamp, and that the keeper could rest. The keeper read it twice, folded it into the green book, and \
went up the stairs to clean the glass. That night the lamp burned until morning, although the sky was clear and no boat \
was expected. When spring came the engineers arrived with cables, ladders and a machine that hummed like a hive. The \
daughter showed them the book, and the oldest engineer turned its pages for an hour without a word. Then he asked \
whether the old lamp might stay where it was, behind the new one, in case the current failed."""
ASK_COPY = f'Repeat this text word for word, but write "grandfather" instead of "keeper":\n\n{TEXT}'
ASK_PROSE = "Write a long letter from a traveller who has come to a strange city for the first time."


class Side:
    """Turns with and without prompt lookup on one engine; what each came to is kept for the notes."""

    def __init__(self, engine: Local, ask: str, tokens: int, temperature: float) -> None:
        self.engine = engine
        self.ask = [Message("user", ask)]
        self.tokens = tokens
        self.replies: dict[bool, list[Reply]] = {True: [], False: []}
        for key, value in {"temperature": temperature, "top_k": 0, "top_p": 1.0}.items():
            engine.board.set("sampler", key, value)
        engine.board.switch(
            "prefix_cache", False
        )  # or a run would leave branches in the context that slow the next one

    def run(self, on: bool) -> Measure:
        """Return a run: the milliseconds from first to last token."""

        def measure(number: int) -> float:
            self.engine.board.switch("prompt_lookup", on)
            reply = self.engine.ask(self.ask, self.tokens, seed=number + 10)
            self.replies[on].append(reply)
            return (reply.numbers.tpot_ms or 0.0) * (len(reply.ids) - 1)

        return measure

    def drafts(self) -> list[DraftNumbers]:
        """Return the plugin's numbers of each run with it."""
        return [reply.numbers.drafts.get("prompt_lookup", DraftNumbers()) for reply in self.replies[True]]

    def notes(self) -> list[str]:
        """Return lines for the card: acceptance, tokens per step, and whether both sides said the same."""
        drafts = self.drafts()
        proposed, kept = (sum(getattr(one, name) for one in drafts) for name in ("proposed", "kept"))
        steps = statistics.mean(reply.numbers.steps for reply in self.replies[True])
        same = sum(one.ids == other.ids for one, other in zip(self.replies[True], self.replies[False], strict=False))
        singles = [reply.numbers.single_ms or 0.0 for reply in self.replies[True]]
        return [
            f"drafted {proposed:,} tokens, kept {kept:,} ({kept / max(proposed, 1):.0%}); "
            f"{steps:.0f} steps for {self.tokens} tokens",
            f"{same} of {len(drafts)} pairs of replies equal id for id (near-ties may fall otherwise in this mode)",
            f"a step without draft took {statistics.median(singles):.1f} ms; at the end: {drafts[-1].note}",
        ]


def lookup_copy(options: Options) -> Outcome:
    """Compare the decode time of a copy with and without prompt lookup."""
    with local() as engine:
        side = Side(engine, ASK_COPY, COPY, temperature=0.0)
        a, b, said = alternate(side.run(True), side.run(False), options.pairs(5, 2))
        copied = copied_share(side.replies[False][-1].text)
        notes = side.notes()
    return Outcome(
        a,
        b,
        f"first to last of {COPY} tokens, greedy, of the answer to 'repeat this text word for word, but write another word "
        f"for one of its words'; SmolLM2 does copy: {copied:.0%} of the words in its answer follow their predecessor in the "
        f"text (it forgets to replace the word); {notes[0]}; one engine, so costs are learnt in the warm-up, "
        "prefix_cache off; "
        f"{THREADS} threads, flash attention, context {LENGTH}; {said}",
        notes[1:],
    )


def lookup_prose(options: Options) -> Outcome:
    """Compare the decode time of free prose with and without prompt lookup."""
    with local() as engine:
        side = Side(engine, ASK_PROSE, PROSE, temperature=1.0)
        a, b, said = alternate(side.run(True), side.run(False), options.pairs(7, 2))
        notes = side.notes()
    return Outcome(
        a,
        b,
        f"first to last of {PROSE} tokens at temperature 1 with no other sampler, end tokens ignored, same seed on both "
        f"sides, another for each pair, prefix_cache off; {notes[0]}; {THREADS} threads, flash attention, "
        f"context {LENGTH}; {said}",
        notes[1:],
    )


def copied_share(text: str) -> float:
    """Return which share of neighbouring words of a text are neighbours in TEXT."""
    known = set(zip(TEXT.split(), TEXT.split()[1:], strict=False))
    pairs = list(zip(text.split(), text.split()[1:], strict=False))
    return sum(pair in known for pair in pairs) / max(len(pairs), 1)
