"""The prefix cache plugin's answers on one session; whole conversations are in `prefix/`."""

from __future__ import annotations

from datetime import datetime

import pytest
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.echo import EchoBackend, EchoSession
from fader_plugins.prefix_cache import Plugin
from fader_plugins.turn import GenerationRequest, Numbers, RequestDraft


def request(keep_state: bool) -> GenerationRequest:
    model, context = ModelSpec(backend="echo"), ContextSpec()
    draft = RequestDraft(owner="me", messages=[], model=model, context=context, now=datetime(2026, 1, 1))
    draft.keep_state = keep_state
    return draft.freeze("turn", 0)


def session(held: list[int]) -> EchoSession:
    made = EchoBackend(ModelSpec(backend="echo"), ContextSpec(), wait=lambda _: None).open()
    made.extend(held, 0)
    return made


@pytest.mark.parametrize(
    ("held", "prompt", "want"),
    [
        ([], [1, 2, 3], 0),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 3], [1, 2, 3], 2),
        ([1, 2, 3, 4, 5], [1, 2, 3], 2),
        ([1, 9, 3], [1, 2, 3], 1),
        ([9], [1, 2, 3], 0),
    ],
)
def test_it_keeps_the_common_beginning(held: list[int], prompt: list[int], want: int) -> None:
    """The session is cut to what it shares with the prompt, one token short of all of it, and nothing is evaluated."""
    made = session(held)
    before = made.backend.evaluated
    reuse = Plugin().restore_prefix(request(keep_state=True), made, prompt, made.backend)
    assert reuse is not None
    assert (want, "session" if want else "") == (reuse.tokens, reuse.tier)
    assert prompt[:want] == made.tokens
    assert before == made.backend.evaluated


def test_without_kept_state_it_passes() -> None:
    """With the KV cache off there is nothing to reuse; the session is left to the host."""
    made = session([1, 2])
    assert Plugin().restore_prefix(request(keep_state=False), made, [1, 2, 3], made.backend) is None
    assert made.tokens == [1, 2]


def test_readings_say_where_from_and_why_not_more() -> None:
    rows = {row.key: row.value for row in Plugin().readings(Numbers(reuse_tier="disk", reuse_note="evicted"))}
    assert rows == {"prefix_tier": "disk", "prefix_note": "evicted"}
    assert {row.value for row in Plugin().readings(Numbers())} == {None}
