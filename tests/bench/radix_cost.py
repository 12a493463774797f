"""What the prefix cache's own bookkeeping costs a turn: the tree alone, no model, no states.

Knows no session.
"""

from __future__ import annotations

import random
import statistics
import time

from fader_plugins.prefix.radix import ids
from fader_plugins.prefix.shelf import Entry, Place, Shelf

from tests.bench.harness import Options, Outcome, calmest

LENGTH = 32_768
ENTRIES = 1000
VOCABULARY = 49_152
GROUP = 20
PLACE = Place("bench", "key")


def radix_cost(options: Options) -> Outcome:
    """Time what a turn needs: find the best entry for a prompt, see that it is new, keep it, drop the oldest."""
    count = options.pairs(10, 3)
    chance = random.Random(1)
    prompts = conversations(chance)
    shelf: Shelf[int] = Shelf()
    for number, prompt in enumerate(prompts):
        shelf.put(Entry(PLACE, ids(prompt), number, 1, False), ENTRIES, replace=False)
    assert len(shelf) == ENTRIES

    shares: list[float] = []

    def group() -> list[float]:
        took = []
        for _ in range(GROUP):
            at = chance.randrange(ENTRIES)
            prompt = [*prompts[at][: chance.randrange(LENGTH // 2, LENGTH)], *chance.choices(range(VOCABULARY), k=64)]
            begin = time.perf_counter_ns()
            tokens = ids(prompt)
            best = next(shelf.nearest(PLACE, tokens))
            if not shelf.covers(PLACE, tokens, 31):
                shelf.put(Entry(PLACE, tokens, at, 1, False), ENTRIES)
            took.append((time.perf_counter_ns() - begin) * 1e-6)
            shares.append(best.shared / len(prompt))
        return took

    group()
    groups, watched = calmest(group, count)
    took = [one for each in groups for one in each]
    said = (
        f"perf_counter around ids, nearest, covers and put (with the eviction it causes), {watched} of {GROUP} prompts; "
        f"{ENTRIES} entries of up to {LENGTH:,} tokens that branch from each other, prompts of {LENGTH // 2:,} to {LENGTH:,} "
        "tokens. a is the median; the bound is on a, so b and ratio are null"
    )
    return Outcome(
        took,
        None,
        said,
        [f"slowest {max(took):.2f} ms; the best entry shared {statistics.median(shares):.0%} of the prompt (median)"],
    )


def conversations(chance: random.Random) -> list[list[int]]:
    """Return prompts of which most begin with a part of an earlier one, all `LENGTH` long."""
    made: list[list[int]] = []
    for _ in range(ENTRIES):
        kept = chance.choice(made)[: chance.randrange(LENGTH)] if made and chance.random() < 0.9 else []
        made.append([*kept, *chance.choices(range(VOCABULARY), k=LENGTH - len(kept))])
    return made
