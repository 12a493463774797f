"""The live gate over turns with made-up times: what trips, what goes back, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from fader.lab import live
from fader.lab.live import Trip, Watch
from fader.metrics import Stats
from fader.switchboard import Switchboard
from fader_backends.errors import FaderError
from fader_plugins.turn import Finished, FinishReason

from tests.lab.made import asked, events

Run = Callable[..., Trip | None]
SLOW, QUICK = (80.0,) * 20, (20.0,) * 20


@pytest.fixture
def turn(board: Callable[..., Switchboard]) -> Run:
    request = asked(board())

    def run(
        watch: Watch, gaps: Sequence[float] = QUICK, reason: FinishReason = "end", prefill: float = 50
    ) -> Trip | None:
        """One turn; it is looked at after every event, as the screen does now and then."""
        stats, trip = Stats(request=request), None
        watch.begin()
        for event in events(request, 100, 0, prefill, gaps):
            if isinstance(event, Finished):
                event = msgspec.structs.replace(event, reason=reason)
            stats.fold(event)
            trip = trip or watch.look(stats)
        return trip or watch.end(stats)

    return run


def watch(*texts: str) -> Watch:
    return Watch(live.parse(texts or ("itl_p95 <= 60 ms over 20 tokens",)))


def back(trip: Trip | None) -> tuple[str, object, object]:
    assert trip is not None
    assert trip.back is not None
    return trip.back.key, trip.back.before, trip.back.after


def test_the_switch_thrown_since_it_held_goes_back_and_the_line_says_all(turn: Run) -> None:
    one = watch()
    assert turn(one) is None
    one.thrown("prompt_lookup", False, True)
    trip = turn(one, SLOW)
    assert back(trip) == ("prompt_lookup", True, False)
    assert trip is not None
    assert live.told(trip) == (
        "itl_p95 over the last 20 tokens was 80 ms; the limit is <= 60 ms. prompt_lookup goes back to off at the next turn. "
        "To have on again: /on prompt_lookup"
    )


def test_a_switch_with_which_it_held_is_not_taken_back_later(turn: Run) -> None:
    one = watch()
    one.thrown("graph", False, True)
    assert turn(one) is None
    trip = turn(one, SLOW)
    assert trip is not None
    assert trip.back is None
    assert "nothing goes back" in live.told(trip)


def test_without_a_switch_it_says_so_once_until_it_holds_again(turn: Run) -> None:
    one = watch()
    assert turn(one, SLOW) is not None
    assert turn(one, SLOW) is None
    assert turn(one) is None
    assert turn(one, SLOW) is not None


def test_the_last_of_two_goes_back_first_then_the_other(turn: Run) -> None:
    one = watch()
    one.thrown("graph", False, True)
    one.thrown("sampler.top_k", 40, 7)
    assert back(turn(one, SLOW)) == ("sampler.top_k", 7, 40)
    one.thrown("sampler.top_k", 7, 40)  # the app puts it back
    assert back(turn(one, SLOW)) == ("graph", True, False)


def test_what_a_person_put_back_already_is_not_thrown_again(turn: Run) -> None:
    one = watch()
    one.thrown("graph", False, True)
    one.thrown("graph", True, False)
    trip = turn(one, SLOW)
    assert trip is not None
    assert trip.back is None


def test_a_switch_thrown_while_the_turn_ran_is_not_blamed_for_it(board: Callable[..., Switchboard], turn: Run) -> None:
    one, stats = watch(), Stats(request=asked(board()))
    one.thrown("graph", False, True)
    one.begin()
    one.thrown("weights", False, True)
    for event in events(stats.request, 10, 0, 1, SLOW):
        stats.fold(event)
    assert back(one.end(stats)) == ("graph", True, False)
    one.thrown("graph", True, False)
    assert back(turn(one, SLOW)) == ("weights", True, False)


def test_a_switch_thrown_while_a_good_turn_ran_is_on_trial_in_the_next(
    board: Callable[..., Switchboard], turn: Run
) -> None:
    one, stats = watch(), Stats(request=asked(board()))
    one.thrown("graph", False, True)
    one.begin()
    one.thrown("graph", True, False)
    for event in events(stats.request, 10, 0, 1, QUICK):
        stats.fold(event)
    assert one.end(stats) is None
    assert back(turn(one, SLOW)) == ("graph", False, True)


def test_gaps_of_other_settings_do_not_count(turn: Run) -> None:
    one = watch()
    assert turn(one, SLOW[:15]) is None
    one.thrown("graph", False, True)
    assert turn(one, SLOW[:15]) is None, "15 gaps are too few, and those before had other settings"
    assert back(turn(one, SLOW[:15])) == ("graph", True, False)


def test_it_trips_while_the_reply_runs(board: Callable[..., Switchboard]) -> None:
    one, stats, at = watch(), Stats(request=asked(board())), []
    one.thrown("graph", False, True)
    one.begin()
    for event in events(stats.request, 10, 0, 1, SLOW * 2):
        stats.fold(event)
        if one.look(stats) is not None:
            at.append(stats.output)
    assert at == [21], "once, with the 20th gap"


def test_stopped_turns_count_for_nothing(turn: Run) -> None:
    one = watch("ttft <= 100 ms", "itl_p95 <= 60 ms over 20 tokens")
    one.thrown("graph", False, True)
    assert turn(one, SLOW[:15], "cancelled", prefill=500) is None
    assert turn(one, QUICK[:10]) is None


def test_a_limit_on_a_turn_is_held_against_each_whole_one(turn: Run) -> None:
    one = watch("ttft <= 100 ms")
    one.thrown("prefix_cache", True, False)
    trip = turn(one, prefill=500)
    assert back(trip) == ("prefix_cache", False, True)
    assert trip is not None
    assert live.told(trip).startswith("ttft was 501 ms; the limit is <= 100 ms.")
    assert live.told(trip).endswith("To have off again: /off prefix_cache")


def test_times_the_baseline_is_the_last_turn_with_nothing_on_trial(turn: Run) -> None:
    one = watch("tpot <= 1.1 x baseline")
    assert turn(one) is None
    assert turn(one, (25.0,) * 20) is None, "nothing was thrown, so this is the baseline now"
    one.thrown("sampler.temperature", None, 1.5)
    trip = turn(one, (30.0,) * 20)
    assert trip is not None
    assert (round(trip.value), round(trip.bound, 1)) == (30, 27.5)
    assert "the limit is <= 27.5 ms (1.1 x baseline)" in live.told(trip)
    assert live.told(trip).endswith(
        "sampler.temperature goes back to unset at the next turn. To have 1.5 again: /set sampler.temperature=1.5"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("itl_p95 <= 60", "needs a unit"),
        ("nonsense", "is not FIGURE <= LIMIT"),
        ("kl <= 0.01", "a chat does not tell kl"),
        ("itl_p99 <= 60 ms over 50 tokens", "a p99 wants more tokens"),
        ("ttft_p95 <= 300 ms", "a turn has one ttft"),
        ("ttft <= 300 ms over 20 tokens", "only itl looks back"),
        (f"itl <= 60 ms over {'9' * 5000} tokens", "does not fit itl"),
        (f"itl <= {'9' * 400} ms", "more than a number can hold"),
        ("tpot <= 1e999 ms", "more than a number can hold"),
    ],
)
def test_bad_lines_name_themselves(text: str, said: str) -> None:
    with pytest.raises(FaderError, match=said) as caught:
        live.parse([text])
    assert "watch" in str(caught.value)
    assert caught.value.failure.next_step


def test_the_example_it_gives_can_be_meant() -> None:
    with pytest.raises(FaderError) as caught:
        live.parse(["nonsense"])
    examples = caught.value.failure.next_step.split("'")[1::2]
    assert len(live.parse(examples)) == 2


def test_a_limit_without_spaces_is_named_as_one_with_them(turn: Run) -> None:
    trip = turn(watch("ttft<=1 ms"))
    assert trip is not None
    assert live.measured(trip).startswith("ttft was ")


def test_how_far_it_looks_back() -> None:
    texts = ["itl_p95 <= 60 ms", "itl_max <= 1 s over the last 500 tokens", "itl <= 60 ms OVER 7 TOKENS"]
    assert [one.tokens for one in live.parse(texts)] == [100, 500, 7]
