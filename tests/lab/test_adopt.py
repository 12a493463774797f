"""A change goes into a profile only while its gates hold, and comes back word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from fader import profiles
from fader.cli import main
from fader.lab import bundle
from fader.lab.adopt import journal
from fader.lab.bundle import Bundle
from fader.lab.evidence import Variable
from fader.lab.experiment import Experiment
from fader.lab.proof import NotProved, prove
from fader.paths import Paths
from fader.profiles import ContextTable
from fader.switchboard import Switchboard

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]
MINE = '# mine\nextends = "echo"\nmax_tokens = 9\n[plugins.prefix_cache]\non = true # for now\n'
HOLDS, FAILS = "failed <= 0", "ttft_p95 <= 0.000001 ms"


def fader(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def mine(paths: Paths) -> Path:
    paths.profiles.mkdir(parents=True)
    path = paths.profiles / "mine.toml"
    path.write_text(MINE)
    return path


@pytest.fixture
def made(build: Build, record: Record) -> Bundle:
    return record(build("prefix_cache=off", keys={"name": "mine"}))


def test_a_change_is_adopted_and_rolled_back(made: Bundle, mine: Path, paths: Paths) -> None:
    done = fader("adopt", "last", "--limit", HOLDS)
    assert (done.exit_code, done.stdout) == (0, f"{mine}\n"), done.output
    assert "failed <= 0: holds, 0 against 0" in done.stderr
    assert f"adopted into mine: prefix_cache on → off (from {made.manifest.id})" in done.stderr
    after = profiles.load("mine", paths)
    assert (after.plugins["prefix_cache"]["on"], after.max_tokens, after.backend) == (False, 9, "echo")
    assert len(journal(paths)) == 1
    back = fader("rollback")
    assert back.exit_code == 0, back.output
    assert back.stdout.startswith("mine: a turn of 8 tokens ran with prefix_cache on, TTFT ")
    assert mine.read_text() == MINE
    assert journal(paths) == []
    again = fader("rollback")
    assert (again.exit_code, again.stderr) == (
        2, "fader: Nothing was adopted that could be rolled back. fader adopt BUNDLE adopts a change.\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        ((FAILS, HOLDS), 1, "fader: Not adopted: ttft_p95 <= 0.000001 ms: fails, "),
        (("kl <= 0.01",), 1, "fader: Not adopted: kl <= 0.01: not measured. The profile is as it was."),
        ((), 2, "names no gates, so nothing says what must hold. Name limits with --limit"),
        (("ttft <= 3 GB",), 2, "fader: gate 'ttft <= 3 GB': the unit 'GB' does not fit ttft."),
    ],
)
def test_without_gates_that_hold_nothing_is_written(
    made: Bundle, mine: Path, limits: tuple[str, ...], code: int, said: str
) -> None:
    done = fader("adopt", "last", *(word for limit in limits for word in ("--limit", limit)))
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert mine.read_text() == MINE


def test_a_profile_that_ships_gets_a_file_of_ones_own(made: Bundle, paths: Paths) -> None:
    done = fader("adopt", "last", "--limit", HOLDS, "--profile", "echo")
    assert done.stdout == f"{paths.profiles / 'echo.toml'}\n", done.output
    assert profiles.load("echo", paths).plugins["prefix_cache"]["on"] is False
    assert "as it was before" not in fader("rollback").stderr
    assert not (paths.profiles / "echo.toml").exists()


def test_what_is_adopted_already_is_said(made: Bundle, mine: Path) -> None:
    fader("adopt", "last", "--limit", HOLDS)
    done = fader("adopt", "last", "--limit", HOLDS)
    assert done.exit_code == 2
    assert "The profile 'mine' has prefix_cache off already." in done.stderr


def test_a_file_that_was_changed_since_is_not_overwritten(made: Bundle, mine: Path) -> None:
    fader("adopt", "last", "--limit", HOLDS)
    mine.write_text(mine.read_text() + "# a thought\n")
    done = fader("rollback")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "has been changed since" in done.stderr
    assert fader("rollback", "--force").exit_code == 0
    assert mine.read_text() == MINE


def test_a_turn_proves_a_setting_or_says_what_it_found(board: Callable[..., Switchboard]) -> None:
    was_on = Variable(key="prefix_cache", before=True, after=False)
    assert prove(board(), [was_on]).output_tokens == 8
    with pytest.raises(NotProved, match=r"^prefix_cache is off, not on\."):
        prove(board(plugins={"prefix_cache": {"on": False}}), [was_on])
    with pytest.raises(NotProved, match=r"^The turn failed: "):
        prove(board(context=ContextTable(length=2)), [was_on])


def test_a_rollback_that_cannot_be_proved_says_so(made: Bundle, mine: Path) -> None:
    fader("adopt", "last", "--limit", HOLDS)
    path = mine.with_name("echo.toml")
    path.write_text('backend = "llama.cpp"\nmodel = "nowhere"\n')
    done = fader("rollback")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "fader: Restored, but not proved: There is no model 'nowhere'." in done.stderr
    assert mine.read_text() == MINE


def test_a_partial_bundle_and_one_without_a_change_carry_nothing(
    build: Build, record: Record, made: Bundle, mine: Path
) -> None:
    bundle.seal(made, msgspec.structs.replace(made.manifest, state="partial", stopped="it was interrupted"))
    done = fader("adopt", made.manifest.id, "--limit", HOLDS)
    assert "is partial: it was interrupted. Nothing may rest on it." in done.stderr
    alone = record(build())
    done = fader("adopt", alone.manifest.id, "--limit", HOLDS)
    assert "compares nothing, so there is no change to adopt." in done.stderr
