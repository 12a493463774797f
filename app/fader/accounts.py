"""One function for each mechanism, from a turn's record to what it saved and what that cost.

An estimate says which measured number it rests on; without one it says so. To add a mechanism, write a function from a record to
an `Account` and put it into `ACCOUNTS` under the plugin's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from fader_backends.ggml_types import BLOCKS, CACHE_TYPES
from fader_plugins.logprobs import Logprobs
from fader_plugins.turn import DraftNumbers, Numbers, RunRecord

FEW = 32
"""New prompt tokens below which a prefill rate is a rough measure."""
FLOAT32 = 4
"""Bytes of a number in float32, which kept weights are measured against."""
HALF = 2.0
"""Bytes of a number in f16, which quantised KV types are measured against."""
PLACES = {
    "live": "in a spare row of the context",
    "memory": "in memory",
    "disk": "on disk",
}
"""Tier of the prefix cache -> where that is. The conversation's own row is `kv_cache`'s."""


class Account(NamedTuple):
    """What one mechanism has to say; fields as in `fader.why.Reason`."""

    saved: str
    cost: str
    baseline: str = ""
    estimate: bool = False
    saved_ms: float | None = None
    saved_tokens: int | None = None
    cost_ms: float | None = None
    cost_bytes: int | None = None
    saved_bytes: int | None = None


def kv_cache(record: RunRecord) -> Account:
    """Without it each step would evaluate the whole text again; with smaller types it takes less memory."""
    return _smaller(record, _kept(record))


def _kept(record: RunRecord) -> Account:
    n = record.numbers
    cost, held = _kv(n)
    if not record.request.keep_state:
        return Account("nothing: state was not kept in this turn", cost, cost_bytes=held)
    steps = n.steps - 1
    if steps < 1 or n.prompt_tokens is None:
        return Account("nothing: no step came after the first token", cost, cost_bytes=held)
    again = round(steps * n.prompt_tokens + (steps - 1) / 2 * (n.output_tokens - 1))
    what = f"{again:,} evaluations of earlier tokens in {steps:,} steps"
    return _priced(what, again, n, cost, held)


def _smaller(record: RunRecord, account: Account) -> Account:
    """Add what quantised keys and values save against f16: the live buffers, times f16's bytes over theirs, less them."""
    options = (record.context or record.request.context).options
    kinds = [str(options.get(name, "f16")) for name in ("type_k", "type_v")]
    blocks = [BLOCKS[CACHE_TYPES.get(kind, CACHE_TYPES["f16"])] for kind in kinds]
    if all(elements == 1 for elements, _ in blocks):
        return account
    types = f"K {kinds[0]}, V {kinds[1]}"
    account = account._replace(cost=f"{account.cost}; less exact words, `fader kv check` measures how much")
    if account.cost_bytes is None:
        return account._replace(saved=f"{account.saved}; memory against f16 ({types}), how much is not known")
    full = account.cost_bytes * 2 * HALF / sum(size / elements for elements, size in blocks)
    less = round(full) - account.cost_bytes
    what = f"est. {_bytes(abs(less))} {'less' if less >= 0 else 'more'} memory than f16 ({types})"
    rests = f"for the memory the live KV buffers, {_bytes(account.cost_bytes)}, and the types' bytes a number"
    if kinds[0] != kinds[1]:
        rests += ", keys and values being equally many"
    return account._replace(
        saved=what if account.saved_tokens is None else f"{account.saved}; {what}",
        baseline=f"{account.baseline}; {rests}" if account.baseline else rests,
        estimate=True,
        saved_bytes=less,
    )


def prefix_cache(record: RunRecord) -> Account:
    """Without it the whole prompt would be evaluated. What was evaluated ahead is `typeahead`'s, and not counted here."""
    n = record.numbers
    restore = n.ttft_parts.get("restore")
    spent = "not known" if restore is None else f"{_ms(restore)} to find and restore"
    if n.reused_tokens is None or n.prompt_tokens is None:
        return Account("nothing: the turn ended before the prompt was looked up", spent, cost_ms=restore)
    if not n.reused_tokens:
        because = n.reuse_note or (f"the prompt differs at token {n.difference.position:,}" if n.difference else "")
        return Account("nothing was reused" + (f": {because}" if because else ""), spent, cost_ms=restore)
    ahead = n.ready_tokens or 0
    reused = n.reused_tokens - ahead
    if reused <= 0:
        return Account(f"nothing: the {ahead:,} tokens reused were evaluated ahead", spent, cost_ms=restore)
    size = None if n.kv_token_bytes is None else round(n.kv_token_bytes * n.reused_tokens)
    place = PLACES.get(n.reuse_tier, "")
    if place:
        spent += f"; kept {place}" + (f", est. {_bytes(size)}" if size is not None else "")
    tier = f" (from {n.reuse_tier})" if n.reuse_tier else ""
    what = f"{reused:,} of {n.prompt_tokens:,} prompt tokens reused{tier}"
    what += f", {ahead:,} more evaluated ahead" if ahead else ""
    account = _priced(what, reused, n, spent, size if place else None)._replace(cost_ms=restore)
    if not place or size is None:
        return account
    rests = f"for the bytes {_bytes(round(n.kv_token_bytes or 0))} a token, as in the live KV buffers"
    return account._replace(baseline=f"{account.baseline}; {rests}", estimate=True)


def typeahead(record: RunRecord) -> Account:
    """Without it what was ready would have been evaluated after the turn was sent."""
    n = record.numbers
    if n.ready_tokens is None:
        return Account("nothing: nothing was evaluated before the turn was sent", "nothing")
    vain = n.vain_tokens or 0
    cost = f"{vain:,} tokens evaluated in vain, while nothing else was to do"
    if not n.ready_tokens:
        return Account("nothing: the turn could use none of what was evaluated ahead", cost)
    return _priced(f"{n.ready_tokens:,} prompt tokens were ready at Enter", n.ready_tokens, n, cost, None)


def drafts(record: RunRecord, name: str) -> Account:
    """Without the guesses of `name` each token would take one evaluation of its own."""
    n, mine = record.numbers, record.numbers.drafts.get(name) or DraftNumbers()
    account = _drafted(n, mine)
    if not mine.held_bytes:
        return account
    return account._replace(
        cost=f"{account.cost}, {_bytes(mine.held_bytes)} for the draft's weights and KV", cost_bytes=mine.held_bytes
    )


def _drafted(n: Numbers, mine: DraftNumbers) -> Account:
    if not mine.proposed:
        return Account("nothing: no token was guessed", f"{_ms(mine.draft_ms)} for guessing", cost_ms=mine.draft_ms)
    what = f"{mine.kept:,} of {mine.proposed:,} guessed tokens were right"
    cost = (
        f"{mine.proposed - mine.kept:,} guessed tokens evaluated in vain, {_ms(mine.draft_ms)} for guessing, "
        f"{_ms(mine.verify_ms)} for checking"
    )
    spent = mine.draft_ms + mine.verify_ms
    if n.single_ms is None:
        none = "none: every step of this turn had guesses, so what one without costs is not known"
        return Account(f"{what}; no time is given", cost, none, False, None, mine.kept, spent)
    given = mine.kept + mine.steps
    saved = given * n.single_ms - spent
    baseline = f"{_ms(n.single_ms)}, this turn's median evaluation without guesses, for each of {given:,} tokens"
    verb = f"est. {_ms(saved)} saved" if saved >= 0 else f"est. {_ms(-saved)} lost"
    return Account(f"{verb}: {what}", cost, baseline, True, saved, mine.kept, spent)


def tensor_split(record: RunRecord) -> Account:
    """It makes room where one device has too little; whether it is quicker, one turn cannot tell."""
    options = record.request.model.options
    mode, layers = options.get("split_mode", "layer"), options.get("n_gpu_layers", -1)
    asked = f"{'all' if layers in (-1, None) else layers} layers off the CPU, split by {mode}"
    loaded = record.numbers.load_ms
    cost = "the model was loaded before this turn" if loaded is None else f"the load of {_ms(loaded)}, in this turn"
    return Account(f"not known from one turn: {asked}; compare turns with it off", cost, cost_ms=loaded)


def graph(record: RunRecord) -> Account:
    """Without it each step starts every operator by itself; both were timed in the check before the first turn."""
    state, n = record.numbers.graph, record.numbers
    if state is None:
        return Account("nothing: the turn ended before anything was told of its graphs", "not known")
    spent = state.compile_ms if state.mode == "compile" else None
    when = f"within {_ms(n.load_ms)} of loading in this turn" if n.load_ms else "before this turn"
    cost = "buffers for the whole context" if spent is None else f"{_ms(spent)} for compiling, {when}"
    if not state.on or state.eager_ms is None or state.step_ms is None or n.steps < 2:
        why_not = f"nothing: steps ran without graphs, because {state.why}" if not state.on else "no time is given"
        return Account(why_not, cost, cost_ms=spent)
    saved = (n.steps - 1) * (state.eager_ms - state.step_ms)
    verb = f"est. {_ms(abs(saved))} {'saved' if saved >= 0 else 'lost'}"
    what = f"{verb}: {n.steps - 1:,} steps after the first token" + (
        f"; TPOT was {_ms(n.tpot_ms)}" if n.tpot_ms else ""
    )
    rests = f"a step took {_ms(state.eager_ms)} without and {_ms(state.step_ms)} with them in the check before the first turn"
    return Account(what, cost, rests, True, saved, cost_ms=spent)


def sampler(record: RunRecord) -> Account:
    """It saves nothing; what it takes is known for the first token, and bounded for the others."""
    n = record.numbers
    first = n.ttft_parts.get("first_sample")
    cost = "not known" if first is None else f"{_ms(first)} for the first token"
    saved = "nothing: it chooses the words"
    if n.single_ms is None or n.tpot_ms is None or n.proposed_tokens or n.tpot_ms < n.single_ms:
        return Account(saved, cost, cost_ms=first)
    cost += f"; est. at most {_ms(n.tpot_ms - n.single_ms)} for each later one"
    baseline = f"TPOT less {_ms(n.single_ms)}, this turn's median evaluation; all else between two tokens is in it"
    return Account(saved, cost, baseline, True, cost_ms=first)


def logprobs(record: RunRecord) -> Account:
    """It saves nothing; what it stores is counted, but how small the store packs that is not in a turn's record."""
    top, n = record.request.logprobs, record.numbers
    budget = record.request.settings("logprobs", Logprobs).store_mib
    cost = (
        f"notes on {n.output_tokens:,} tokens: for each the {top:,} likeliest before the sampler chain and after it; "
        f"a chat stores them, those of all chats in at most {budget:,} MiB"
    )
    return Account("nothing: it notes what the words were chosen from", cost if top else "nothing: none were asked for")


def weights(record: RunRecord) -> Account:
    """Without it each number would take four bytes in float32; what it takes is counted once the model is loaded."""
    facts, kept = record.facts, record.request.model.options.get("matrices", "plain")
    cost = "a load of its own when it is switched; less exact words, `fader weights check` measures how much"
    if facts is None or not facts.weights_bytes:
        return Account("not known: the backend does not tell what weights take", cost)
    less = facts.parameters * FLOAT32 - facts.weights_bytes
    if less <= 0:
        return Account("nothing: the weights are as the model has them", "nothing", cost_bytes=facts.weights_bytes)
    rests = (
        f"{facts.parameters:,} numbers of {FLOAT32} bytes, less {_bytes(facts.weights_bytes)} that the weights take now; "
        "what it does to the speed shows when it is off"
    )
    return Account(
        f"est. {_bytes(less)} less memory than in float32 (matrices = {kept})",
        cost,
        rests,
        True,
        cost_bytes=facts.weights_bytes,
        saved_bytes=less,
    )


def timing(record: RunRecord) -> Account:  # noqa: ARG001 - as the others
    """It shows what is measured in any case."""
    return Account("nothing: it shows the numbers", "nothing in the engine: they are taken in any case")


def unknown(record: RunRecord) -> Account:  # noqa: ARG001 - as the others
    """Speak for a plugin nobody wrote an account for."""
    return Account("not known: Fader has no account of this plugin", "not known")


ACCOUNTS: Mapping[str, Callable[[RunRecord], Account]] = {
    "graph": graph,
    "kv_cache": kv_cache,
    "logprobs": logprobs,
    "prefix_cache": prefix_cache,
    "sampler": sampler,
    "timing": timing,
    "typeahead": typeahead,
    **{name: partial(drafts, name=name) for name in ("draft_model", "prompt_lookup")},
    "tensor_split": tensor_split,
    "weights": weights,
}
"""Plugin -> what it did."""


# --- numbers ----------------------------------------------------------------------------------------------------------


def _priced(what: str, tokens: int, n: Numbers, cost: str, size: int | None) -> Account:
    """Return an account of saved evaluations, in time by this turn's prefill rate where there is one."""
    if not n.prefill_tps:
        none = "none: this turn has no prefill rate"
        return Account(f"{what}; no time is given", cost, none, False, None, tokens, None, size)
    saved = tokens * 1000 / n.prefill_tps
    baseline = f"this turn's prefill rate, {n.prefill_tps:,.0f} tok/s over {n.processed_tokens:,} new tokens"
    if n.processed_tokens < FEW:
        baseline += " (few, so it is a rough measure)"
    return Account(f"est. {_ms(saved)} saved: {what}", cost, baseline, True, saved, tokens, None, size)


def _kv(n: Numbers) -> tuple[str, int | None]:
    """Return what the KV buffers take, in words and in bytes."""
    if n.kv_bytes is None:
        return "not known: the backend does not tell", None
    room = f" for {n.context_length:,} tokens" if n.context_length else ""
    used = f", {n.context_used:,} of them used" if room and n.context_used is not None else ""
    return f"{_bytes(n.kv_bytes)} allocated{room}{used}", n.kv_bytes


def _ms(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.1f} s"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2f} ms"


def _bytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"
