from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from fader import tui
from fader.commands.chat import chat
from fader.commands.plain import plain
from fader.commands.run import as_error, tell, whole_prompt
from fader.notices import left_out
from fader.paths import Paths
from fader.profiles import Profile
from fader.report import CandidateReport, RunReport, TokenReport
from fader.why import Reason
from fader_backends.errors import ModelMissing, UnknownName
from fader_plugins.turn import Trimmed

Fader = Callable[..., Result]


def echo(fader: Fader, *arguments: str, stdin: bytes | str | None = None) -> Result:
    return fader("run", "-p", "echo", *arguments, stdin=stdin)


def test_the_answer_is_all_there_is_on_stdout(fader: Fader) -> None:
    result = echo(fader, "hello world")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "hello world\n", "")


def test_what_is_piped_in_comes_before_the_prompt(fader: Fader) -> None:
    assert echo(fader, "sum this up", stdin="first\r\nsecond\n").stdout == "first\nsecond\n\nsum this up\n"
    assert echo(fader, stdin=b"\xef\xbb\xbfonly \xe2\x82\xac\n").stdout == "only €\n"
    assert echo(fader, "-", stdin="only this").stdout == "only this\n"


def test_options_before_the_command_count_too(fader: Fader, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fader("-p", "echo", "run", "hi").stdout == "hi\n"
    monkeypatch.setenv("FADER_PROFILE", "echo")
    assert fader("run", "hi").stdout == "hi\n"
    assert "unknown profile 'nope'" in fader("-p", "nope", "run", "hi").stderr


def test_max_tokens_and_going_on_after_the_end(fader: Fader) -> None:
    report = json.loads(echo(fader, "hello world", "--max-tokens", "5", "--json").stdout)
    assert (report["text"], report["finish_reason"], report["output_tokens"]) == ("hello", "length", 5)
    report = json.loads(echo(fader, "hi", "--max-tokens", "9", "--ignore-eos", "--json").stdout)
    assert (report["finish_reason"], report["output_tokens"]) == ("length", 9)


REPORT_FIELDS = [
    field.name for kind in (RunReport, Reason, TokenReport, CandidateReport) for field in msgspec.structs.fields(kind)
]


def test_the_json_object_is_an_interface(fader: Fader) -> None:
    result = echo(fader, "hello", "--json", "--seed", "7", "--temp", "0", "--off", "prefix_cache")
    assert result.stdout.count("\n") == 1
    assert " ".join(json.loads(result.stdout)) == (
        "text finish_reason backend model device model_sha256 profile seed plugins prompt_tokens reused_tokens processed_tokens "
        "output_tokens ids ttft_ms ttft_parts tpot_ms itl_ms e2e_ms prefill_tps decode_tps kv_bytes rss_peak_bytes "
        "load_ms graph dropped_messages versions why surprise_bits logprobs"
    )
    report = msgspec.json.decode(result.stdout, type=RunReport)
    assert (report.text, report.finish_reason, report.backend, report.profile) == ("hello", "end", "echo", "echo")
    assert report.model_sha256 is None
    assert report.seed == 7
    assert report.plugins["sampler"].on
    assert report.plugins["sampler"].settings["temperature"] == 0.0
    assert not report.plugins["prefix_cache"].on
    assert report.reused_tokens == 0
    assert report.processed_tokens == report.prompt_tokens
    assert report.output_tokens == len(report.ids) == report.itl_ms.n + 1 == 5
    assert report.ttft_ms is not None
    assert set(report.ttft_parts) == {"queue", "encode", "restore", "prefill", "first_sample"}
    assert sum(report.ttft_parts.values()) == pytest.approx(report.ttft_ms)
    assert report.tpot_ms is not None
    assert report.decode_tps == pytest.approx(1000 / report.tpot_ms)
    assert {"fader", "python"} <= set(report.versions)
    assert {"sampler", "kv_cache"} <= {reason.mechanism for reason in report.why}
    assert "prefix_cache" not in {reason.mechanism for reason in report.why}


def test_the_json_object_is_documented() -> None:
    text = (Path(__file__).parents[2] / "app" / "RUN_JSON.md").read_text(encoding="utf-8")
    assert [name for name in REPORT_FIELDS if f"`{name}`" not in text] == []


def test_logprobs_tell_what_each_token_was_chosen_from(fader: Fader) -> None:
    """Five tokens, each with its candidates; without a chain, before and after are the same."""
    off = [part for key in ("top_k=0", "top_p=1", "min_p=0") for part in ("-o", f"sampler.{key}")]
    asked = ("hello", "--json", "--logprobs", "3", "--seed", "1", "--temp", "1", *off)
    report = msgspec.json.decode(echo(fader, *asked).stdout, type=RunReport)
    assert report.logprobs is not None
    assert [one.token for one in report.logprobs] == list(report.ids)
    assert "".join(one.text for one in report.logprobs if len(one.text) == 1).startswith(report.text[0])
    for one in report.logprobs:
        assert len(one.candidates) in (3, 4)
        assert one.token in [candidate.token for candidate in one.candidates]
        for candidate in one.candidates:
            assert candidate.removed_by is None
            assert candidate.chain_logprob == pytest.approx(candidate.logprob, abs=1e-5)
    mean = -sum(one.logprob for one in report.logprobs) / len(report.logprobs) / math.log(2)
    assert report.surprise_bits == pytest.approx(mean)


def test_without_logprobs_there_are_none(fader: Fader) -> None:
    report = json.loads(echo(fader, "hello", "--json").stdout)
    assert (report["logprobs"], report["surprise_bits"]) == (None, None)


@pytest.mark.parametrize("count", ["0", "51", "many"])
def test_logprobs_have_bounds(fader: Fader, count: str) -> None:
    result = echo(fader, "hello", "--json", "--logprobs", count)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--logprobs" in result.stderr


def test_logprobs_need_json(fader: Fader) -> None:
    result = echo(fader, "hello", "--logprobs", "5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--logprobs needs --json. Add --json" in result.stderr


def test_settings_are_typed_by_the_plugin(fader: Fader) -> None:
    result = echo(fader, "x", "--json", "-o", "sampler.top_k=7", "-o", "sampler.top_p=0.5", "--on", "sampler")
    sampler = json.loads(result.stdout)["plugins"]["sampler"]
    assert sampler["on"]
    assert (sampler["settings"]["top_k"], sampler["settings"]["top_p"]) == (7, 0.5)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_that_says_nothing_is_not_waited_for(user: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("never read"))
    assert whole_prompt("hello") == "hello"


def test_an_answer_cannot_steer_the_terminal() -> None:
    said = "a\x1b[2J\x9b31m\tb\r\n"
    assert plain(said, Terminal()) == "a\ufffd[2J\ufffd31m\tb\ufffd\n"
    assert plain(said, io.StringIO()) == said


@pytest.mark.parametrize("model", [None, "here.gguf"])
def test_the_chat_gets_what_was_asked(
    user: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str | None
) -> None:
    started: list[tuple[Paths, Profile, str, bool]] = []

    def start(*arguments: Any) -> int:
        started.append(arguments)
        return 0

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(tui, "start", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.gguf").write_bytes(b"GGUF")
    assert chat("plain", model, True, user) == 0
    ((paths, profile, name, resume),) = started
    assert (paths, profile.name, resume) == (user, "plain", True)
    # Without any model the chat opens all the same and says what to do.
    assert name == profile.model == (str(tmp_path / "here.gguf") if model else "")
    with pytest.raises(ModelMissing):
        chat("plain", "nowhere.gguf", True, user)

    user.profiles.mkdir(parents=True)
    (user.profiles / "mine.toml").write_text("plugins.samplr.on = true\n")
    with pytest.raises(UnknownName, match=r"mine\.toml, line 1: unknown plugin 'samplr'"):
        chat("mine", model, False, user)


def test_what_was_left_out_is_said(fader: Fader, tmp_path: Path) -> None:
    """A conversation of one question has nothing to leave out; the count is 0 and nothing is said."""
    result = echo(fader, "hello", "--json", "-o", "kv_cache.when_full=drop_oldest")
    assert json.loads(result.stdout)["dropped_messages"] == 0
    assert result.stderr == ""


def test_the_notice() -> None:
    """One line for people, as `fader run` prints it and the chat shows it."""
    event = Trimmed(request_id="r", at_ns=0, messages=4, tokens=900)
    answer_err = io.StringIO()
    tell(str(as_error(left_out(event))), answer_err)
    assert answer_err.getvalue() == (
        "fader: 4 oldest messages left out to fit the context (900 tokens). The conversation keeps them; the model does "
        "not see them.\n"
    )


NOISY = """
from fader_plugins import PluginInfo, hookimpl
print("import noise")
info = PluginInfo(name="noisy", summary="prints")
@hookimpl
def plan_request(draft):
    print("plan noise")
@hookimpl
def restore_prefix(prompt):
    print("engine noise")
"""


def test_what_plugins_print_is_not_the_answer(fader: Fader, user: Paths) -> None:
    """A plugin that prints spoils neither the answer nor the JSON nor the list of plugins."""
    user.plugins.mkdir(parents=True)
    (user.plugins / "noisy.py").write_text(NOISY)
    assert fader("run", "-p", "echo", "hello").stdout == "hello\n"
    assert json.loads(fader("run", "-p", "echo", "--json", "hello").stdout)["text"] == "hello"
    listed = fader("plugins", "list", "--json")
    assert "noisy" in {plugin["name"] for plugin in json.loads(listed.stdout)}
    assert "import noise" in listed.stderr
