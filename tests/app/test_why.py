"""What each mechanism is said to have saved and cost, from records written by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest
from fader.accounts import ACCOUNTS
from fader.why import Reason, why
from fader_backends.base import ContextSpec, ModelFacts, ModelSpec, SamplerSettings
from fader_backends.graphs import GraphState
from fader_plugins.turn import Difference, DraftNumbers, GenerationRequest, Numbers, PluginState, RunRecord

KV = 90 * 2**20


def record(*on: str, keep: bool = True, types: tuple[str, str] | None = None, **numbers: Any) -> RunRecord:
    plugins = {name: PluginState(name in on, {}) for name in dict.fromkeys((*ACCOUNTS, "known_backends", *on))}
    request = GenerationRequest(
        id="r", submitted_ns=0, owner="me", messages=(), model=ModelSpec(backend="echo"), context=ContextSpec(),
        sampler=SamplerSettings(), keep_state=keep, chunk=128, max_tokens=None, stop=(), ignore_end=False,
        now=datetime(2026, 1, 1), profile="test", plugins=plugins,
    )  # fmt: skip
    known: dict[str, Any] = {
        "prompt_tokens": 1300,
        "reused_tokens": 1204,
        "processed_tokens": 96,
        "output_tokens": 11,
        "steps": 11,
    }
    known |= {"kv_token_bytes": KV / 4096}
    given = {**known, "prefill_tps": 200.0, "kv_bytes": KV, "context_length": 4096, "context_used": 1311, **numbers}
    context = ContextSpec(options=dict(zip(("type_k", "type_v"), types, strict=True))) if types else None
    return RunRecord(request=request, facts=None, context=context, numbers=Numbers(**given), text="", ids=())


def only(found: RunRecord) -> Reason:
    (reason,) = why(found)
    return reason


def test_what_was_off_is_not_spoken_of() -> None:
    """One reason for each plugin that was on, and none for one that is no mechanism."""
    assert why(record("known_backends")) == []
    assert [reason.mechanism for reason in why(record("sampler", "timing"))] == ["sampler", "timing"]


def test_prefix_cache() -> None:
    """Reused tokens are priced at the turn's own prefill rate, and the place they lie in is named."""
    reason = only(record("prefix_cache", reuse_tier="disk", ttft_parts={"restore": 3.0}))
    assert reason.saved == "est. 6,020 ms saved: 1,204 of 1,300 prompt tokens reused (from disk)"
    assert reason.baseline == (
        "this turn's prefill rate, 200 tok/s over 96 new tokens; for the bytes 22.5 KiB a token, as in the live KV buffers"
    )
    assert (reason.estimate, reason.saved_ms, reason.saved_tokens, reason.cost_ms) == (True, 6020.0, 1204, 3.0)
    assert reason.cost_bytes == round(KV / 4096 * 1204)
    assert reason.cost == "3.00 ms to find and restore; kept on disk, est. 26.5 MiB"
    assert "/off prefix_cache" in reason.off


@pytest.mark.parametrize(
    ("tier", "numbers", "cost", "held"),
    [
        ("live", {}, "; kept in a spare row of the context, est. 26.5 MiB", round(KV / 4096 * 1204)),
        ("memory", {}, "; kept in memory, est. 26.5 MiB", round(KV / 4096 * 1204)),
        ("memory", {"kv_token_bytes": None}, "; kept in memory", None),
        ("session", {}, "", None),
    ],
)
def test_the_tier_a_hit_came_from(tier: str, numbers: dict[str, Any], cost: str, held: int | None) -> None:
    """Each says where it lies; the conversation's own row holds nothing beyond the KV cache."""
    reason = only(record("prefix_cache", reuse_tier=tier, ttft_parts={"restore": 3.0}, **numbers))
    assert reason.saved.endswith(f"reused (from {tier})")
    assert (reason.cost, reason.cost_bytes) == ("3.00 ms to find and restore" + cost, held)


def test_typeahead() -> None:
    """Tokens ready at Enter are priced at the turn's own prefill rate; those in vain are the cost."""
    reason = only(record("typeahead", ready_tokens=300, vain_tokens=12))
    assert reason.saved == "est. 1,500 ms saved: 300 prompt tokens were ready at Enter"
    assert reason.baseline == "this turn's prefill rate, 200 tok/s over 96 new tokens"
    assert reason.cost == "12 tokens evaluated in vain, while nothing else was to do"
    assert (reason.estimate, reason.saved_ms, reason.saved_tokens) == (True, 1500.0, 300)
    vain = only(record("typeahead", ready_tokens=0, vain_tokens=40))
    assert vain.saved.startswith("nothing: the turn could use none")
    assert vain.cost.startswith("40 tokens evaluated in vain")
    assert (vain.estimate, vain.saved_ms, vain.saved_tokens) == (False, None, None)
    assert only(record("typeahead")).cost == "nothing"


def test_what_was_ready_is_counted_once() -> None:
    """Tokens evaluated ahead were reused, but saved by typeahead: the prefix cache counts the others."""
    prefix, ahead = why(record("prefix_cache", "typeahead", ready_tokens=300, vain_tokens=0, reuse_tier="session"))
    assert (prefix.saved_tokens, ahead.saved_tokens) == (904, 300)
    assert prefix.saved == (
        "est. 4,520 ms saved: 904 of 1,300 prompt tokens reused (from session), 300 more evaluated ahead"
    )
    alone = only(record("prefix_cache", ready_tokens=1204, vain_tokens=0))
    assert (alone.saved, alone.saved_ms) == ("nothing: the 1,204 tokens reused were evaluated ahead", None)


def test_quantised_kv() -> None:
    """The live buffers of q8_0, 34 bytes for 32 numbers, would be 64/34 as large in f16."""
    reason = only(record("kv_cache", types=("q8_0", "q8_0")))
    assert reason.saved_bytes == round(KV * 64 / 34) - KV
    assert reason.saved == (
        "est. 65.2 s saved: 13,045 evaluations of earlier tokens in 10 steps; "
        "est. 79.4 MiB less memory than f16 (K q8_0, V q8_0)"
    )
    assert reason.baseline.endswith("; for the memory the live KV buffers, 90.0 MiB, and the types' bytes a number")
    assert reason.cost.endswith("; less exact words, `fader kv check` measures how much")
    assert (reason.estimate, reason.cost_bytes) == (True, KV)
    mixed = only(record("kv_cache", types=("q8_0", "f16")))
    assert mixed.saved_bytes == round(KV * 4 / (34 / 32 + 2)) - KV
    assert mixed.baseline.endswith("keys and values being equally many")
    short = only(record("kv_cache", types=("q8_0", "q4_0"), steps=1, output_tokens=1))
    assert short.saved == "est. 131.5 MiB less memory than f16 (K q8_0, V q4_0)"  # 90 MiB x 4 / (34/32 + 18/32) - 90
    assert (short.estimate, short.saved_ms) == (True, None)
    unknown = only(record("kv_cache", types=("q8_0", "q8_0"), kv_bytes=None))
    assert (unknown.saved_bytes, unknown.saved.endswith("how much is not known")) == (None, True)
    for plain in (("f16", "f16"), ("bf16", "f16")):
        assert only(record("kv_cache", types=plain)) == only(record("kv_cache"))


def test_logprobs() -> None:
    """They save nothing; what is stored is counted, and bounded by the setting."""
    found = record("logprobs")
    asked = msgspec.structs.replace(found, request=msgspec.structs.replace(found.request, logprobs=10))
    reason = only(asked)
    assert reason.saved.startswith("nothing: ")
    assert reason.cost.startswith("notes on 11 tokens: for each the 10 likeliest before the sampler chain and after it")
    assert reason.cost.endswith("at most 64 MiB")
    assert (reason.estimate, reason.saved_ms, reason.cost_bytes) == (False, None, None)
    assert only(found).cost == "nothing: none were asked for"


def test_without_a_baseline_no_time_is_invented() -> None:
    """No prefill rate, no milliseconds; few tokens, a warning."""
    reason = only(record("prefix_cache", prefill_tps=None))
    assert "ms" not in reason.saved
    assert (reason.estimate, reason.saved_ms, reason.saved_tokens) == (False, None, 1204)
    assert reason.baseline.startswith("none: ")
    assert "rough" in only(record("prefix_cache", processed_tokens=1)).baseline


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"reuse_note": "the chat was edited"}, "nothing was reused: the chat was edited"),
        ({"difference": Difference(12, "a", "b")}, "nothing was reused: the prompt differs at token 12"),
        ({}, "nothing was reused"),
    ],
)
def test_a_miss_says_why(numbers: dict[str, Any], said: str) -> None:
    """The plugin's note comes first, then the first token that differs."""
    reason = only(record("prefix_cache", reused_tokens=0, **numbers))
    assert (reason.saved, reason.estimate, reason.saved_ms) == (said, False, None)


def test_kv_cache() -> None:
    """Ten steps after the first would each have evaluated the prompt, and the reply so far but its last token."""
    again = sum(1300 + step for step in range(10))
    reason = only(record("kv_cache"))
    assert reason.saved_tokens == again
    assert reason.saved_ms == pytest.approx(again * 5.0)
    assert reason.saved == "est. 65.2 s saved: 13,045 evaluations of earlier tokens in 10 steps"
    assert reason.cost == "90.0 MiB allocated for 4,096 tokens, 1,311 of them used"
    assert only(record("kv_cache", steps=1, output_tokens=1)).saved_tokens is None
    assert only(record("kv_cache", keep=False)).saved.startswith("nothing")
    assert only(record("kv_cache", kv_bytes=None)).cost == "not known: the backend does not tell"


def test_weights() -> None:
    """Counted bytes against float32; nothing where there is no difference, and where the backend does not tell."""
    facts = ModelFacts(backend="torch", model="m", parameters=100 * 2**20, weights_bytes=150 * 2**20)
    made = record("weights")

    def told(**changes: int) -> Reason:
        return only(msgspec.structs.replace(made, facts=msgspec.structs.replace(facts, **changes)))

    assert told().saved == "est. 250.0 MiB less memory than in float32 (matrices = plain)"
    assert told().baseline.startswith("104,857,600 numbers of 4 bytes, less 150.0 MiB")
    assert (told().saved_bytes, told().cost_bytes, told().estimate) == (250 * 2**20, 150 * 2**20, True)
    assert told(weights_bytes=400 * 2**20).saved.startswith("nothing")
    assert told(weights_bytes=0).saved.startswith("not known")
    assert only(made).saved.startswith("not known")


def test_drafts() -> None:
    """Three steps with guesses gave ten tokens; at 20 ms each these would have taken 200 ms, and they took 82."""
    mine = DraftNumbers(steps=3, proposed=12, kept=7, draft_ms=2.0, verify_ms=80.0)
    reason = only(record("prompt_lookup", drafts={"prompt_lookup": mine}, single_ms=20.0))
    assert reason.saved == "est. 118 ms saved: 7 of 12 guessed tokens were right"
    assert reason.cost == "5 guessed tokens evaluated in vain, 2.00 ms for guessing, 80 ms for checking"
    assert (reason.saved_ms, reason.saved_tokens, reason.cost_ms, reason.estimate) == (118.0, 7, 82.0, True)
    assert only(record("draft_model", drafts={"draft_model": mine}, single_ms=8.0)).saved.startswith(
        "est. 2.00 ms lost: "
    )
    large = msgspec.structs.replace(mine, held_bytes=138 * 2**20)
    reason = only(record("draft_model", drafts={"draft_model": large}, single_ms=20.0))
    assert reason.cost.endswith(", 80 ms for checking, 138.0 MiB for the draft's weights and KV")
    assert reason.cost_bytes == 138 * 2**20
    blind = only(record("draft_model", drafts={"draft_model": mine}))
    assert (blind.saved_ms, blind.estimate) == (None, False)
    assert blind.baseline.startswith("none: every step")
    assert only(record("prompt_lookup")).saved == "nothing: no token was guessed"


def test_who_guessed() -> None:
    """Each plugin answers for its own guesses, one that Fader does not know too."""
    both = {
        "prompt_lookup": DraftNumbers(steps=1, proposed=4, kept=4),
        "mine": DraftNumbers(steps=2, proposed=8, kept=1),
    }
    found = {reason.mechanism: reason for reason in why(record("prompt_lookup", "draft_model", "mine", drafts=both))}
    assert {name: reason.saved_tokens for name, reason in found.items()} == {
        "prompt_lookup": 4,
        "draft_model": None,
        "mine": 1,
    }
    assert only(record("mine")).saved.startswith("not known")


def test_tensor_split() -> None:
    """What it was asked, and what the load took; a gain is not made up."""
    reason = only(record("tensor_split", load_ms=1200.0))
    assert reason.saved.startswith("not known from one turn: all layers off the CPU, split by layer")
    assert (reason.cost, reason.cost_ms, reason.estimate) == ("the load of 1,200 ms, in this turn", 1200.0, False)


def test_graph() -> None:
    """What was timed in the check is the baseline; what could not be used says why, and compiling is its cost."""
    state = GraphState(mode="compile", on=True, compile_ms=61_000.0, eager_ms=20.0, step_ms=5.0)
    reason = only(record("graph", graph=state, tpot_ms=6.0))
    assert reason.saved == "est. 150 ms saved: 10 steps after the first token; TPOT was 6.00 ms"
    assert (reason.saved_ms, reason.cost_ms, reason.estimate) == (150.0, 61_000.0, True)
    assert reason.cost == "61.0 s for compiling, before this turn"
    assert "20 ms without and 5.00 ms with" in reason.baseline
    slower = only(record("graph", graph=GraphState(mode="static", on=True, eager_ms=5.0, step_ms=6.0), load_ms=9.0))
    assert slower.saved.startswith("est. 10 ms lost")
    assert slower.cost_ms is None
    off = only(record("graph", graph=GraphState(mode="compile", on=False, why="there is no compiler")))
    assert off.saved == "nothing: steps ran without graphs, because there is no compiler"
    assert not off.estimate


def test_sampler() -> None:
    """It saves nothing; the first token's time is measured, that of the others bounded."""
    parts = {"first_sample": 0.4}
    reason = only(record("sampler", ttft_parts=parts, tpot_ms=24.0, single_ms=23.5))
    assert reason.cost == "0.40 ms for the first token; est. at most 0.50 ms for each later one"
    assert (reason.estimate, reason.saved_ms, reason.cost_ms) == (True, None, 0.4)
    assert only(record("sampler", ttft_parts=parts)).cost == "0.40 ms for the first token"
    assert only(record("sampler")).cost == "not known"


def test_a_turn_that_failed_early() -> None:
    """Nothing is known; nothing is claimed, and nothing raises."""
    empty: dict[str, Any] = dict.fromkeys(("prompt_tokens", "reused_tokens", "prefill_tps", "kv_bytes"))
    found = why(record(*ACCOUNTS, **empty, processed_tokens=0, output_tokens=0, steps=0))
    assert not [reason for reason in found if reason.saved_ms or reason.estimate]
