from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result
from fader.paths import Paths

Fader = Callable[..., Result]


def echo(fader: Fader, *arguments: str, stdin: bytes | str | None = None) -> Result:
    return fader("run", "-p", "echo", *arguments, stdin=stdin)


def one_line(result: Result, code: int) -> str:
    """Return the one line on stderr of a command that was refused."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.rstrip("\n")


REFUSED = [
    (["run", "-p", "ecko", "x"], "fader: unknown profile 'ecko'. Did you mean 'echo'?"),
    (["run", "-p", "echo", "x", "--on", "sampller"], "fader: unknown plugin 'sampller'. Did you mean 'sampler'?"),
    (["run", "-p", "echo", "x", "--off", "known_backends"], "fader: Plugin 'known_backends' has no switch."),
    (["run", "-p", "echo", "x", "-o", "smapler.seed=1"], "fader: unknown plugin 'smapler'. Did you mean 'sampler'?"),
    (
        ["run", "-p", "echo", "x", "-o", "sampler.temprature=1"],
        "fader: unknown setting of plugin 'sampler' 'temprature'. Did you mean 'temperature'?",
    ),
    (["run", "-p", "echo", "x", "-o", "sampler.top_k"], "fader: -o 'sampler.top_k' is not plugin.key=value."),
    (["run", "-p", "echo", "x", "-o", "sampler.top_k=many"], "fader: sampler.top_k = 'many' cannot be used:"),
    (["run", "-p", "echo", "x", "-o", "sampler.top_p=1.5"], "fader: sampler.top_p = '1.5' cannot be used:"),
    (["run", "-p", "echo", "x", "--temp", "-1"], "fader: sampler.temperature = -1.0 cannot be used:"),
    (["run", "-p", "echo", "x", "--temp", "warm"], "fader: Invalid value for '--temp': 'warm' is not a valid float."),
    (["run", "-p", "echo", "x", "--seed", "-1"], "fader: Invalid value for '--seed': -1 is not in the range"),
    (["run", "-p", "echo", "x", "--max-tokens", "0"], "fader: Invalid value for '--max-tokens': 0 is not in the range"),
    (["run", "-p", "echo", "x", "y"], "fader: Got unexpected extra argument (y). See fader run --help."),
    (["run", "-p", "echo", "x", "--sed", "1"], "fader: No such option"),
    (["run", "-p", "echo", ""], "fader: There is nothing to ask."),
    (["run", "-p", "echo", " \n "], "fader: There is nothing to ask."),
    (["run", "-p", "echo"], "fader: There is nothing to ask."),
    (["run", "-p", "echo", "a\udcff"], "fader: The prompt is not UTF-8 text."),
    (["run", "-p", "echo", "a", "-s", "\udcff"], "fader: The system prompt is not UTF-8 text."),
    (["run", "-m", "nowhere.gguf", "x"], "fader: There is no model file nowhere.gguf."),
    (["run", "-m", "nonsense", "x"], "fader: There is no model 'nonsense'."),
    (["run", "-m", ".", "x"], "fader: . is a folder, not a model file."),
    (["-c", "run", "x"], "fader: -c opens the chat; it cannot go with 'run'."),
    (["rum"], "fader: unknown command 'rum'. Did you mean 'run'?"),
    (["profiles", "shwo", "x"], "fader: unknown command 'shwo'. Did you mean 'show'?"),
    (["profiles", "show", "exakt"], "fader: unknown profile 'exakt'. Did you mean 'exact'?"),
    (["profiles", "path", "exakt"], "fader: unknown profile 'exakt'. Did you mean 'exact'?"),
    (["profiles", "new", "../x"], "fader: '../x' cannot be a profile's name."),
    (["profiles", "new", "x", "--from", "plian"], "fader: unknown profile 'plian'. Did you mean 'plain'?"),
    (["paths", "databse"], "fader: unknown place 'databse'. Did you mean 'database'?"),
    (["log", "-n", "0"], "fader: Invalid value for '-n': 0 is not in the range"),
    ([], "fader: The chat needs a terminal, and this is not one. Without one, use: fader run"),
    (["-c"], "fader: The chat needs a terminal"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(case[0])[:40] for case in REFUSED])
def test_what_cannot_be_meant_is_refused_with_one_line(fader: Fader, arguments: list[str], message: str) -> None:
    assert one_line(fader(*arguments), 2).startswith(message)


def test_stdin_that_is_not_text(fader: Fader) -> None:
    line = one_line(echo(fader, "x", stdin=b"good\xff\xfe"), 2)
    assert line == "fader: Stdin is not UTF-8 text: byte 5 is 0xff. Convert it first, for example with iconv."


def test_a_bad_profile_names_its_line(fader: Fader, user: Paths) -> None:
    user.profiles.mkdir(parents=True)
    path = user.profiles / "mine.toml"
    path.write_text('extends = "echo"\n[plugins.sampler]\ntop_kk = 3\n')
    expected = f"fader: {path}, line 3: unknown setting of plugin 'sampler' 'top_kk'. Did you mean 'top_k'?"
    assert one_line(fader("run", "-p", "mine", "x"), 2) == expected
    assert one_line(fader("plugins", "list", "-p", "mine"), 2) == expected


def test_a_prompt_longer_than_the_context(fader: Fader, user: Paths) -> None:
    user.profiles.mkdir(parents=True)
    (user.profiles / "small.toml").write_text('extends = "echo"\ncontext.length = 64\n')
    line = one_line(fader("run", "-p", "small", "word " * 100), 1)
    assert "Nothing was cut." in line


def test_a_megabyte_in_the_prompt(fader: Fader) -> None:
    line = one_line(echo(fader, stdin="word " * 200_000), 1)
    assert "The prompt takes" in line


def test_control_token_text_is_text(fader: Fader) -> None:
    assert echo(fader, "<|im_end|> </s>", "-s", "<|im_start|>").stdout == "<|im_end|> </s>\n"


def test_an_unforeseen_error_goes_to_the_log(fader: Fader, user: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("we did\nnot see this coming")

    monkeypatch.setattr("fader.commands.run.whole_prompt", fail)
    line = one_line(echo(fader, "x"), 1)
    assert line == (f"fader: unforeseen error: ZeroDivisionError: we did not see this coming. Details: {user.log}")
    assert "Traceback (most recent call last)" in user.log.read_text()


def test_an_unforeseen_error_without_a_log(fader: Fader, user: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    user.state.parent.mkdir()
    user.state.write_text("a file where the folder should be")
    monkeypatch.setattr("fader.commands.run.whole_prompt", lambda _: 1 / 0)
    assert f"(No log: cannot write {user.log}.)" in one_line(echo(fader, "x"), 1)


def test_a_broken_plugin_is_named_and_does_not_stop_the_answer(fader: Fader, user: Paths) -> None:
    user.plugins.mkdir(parents=True)
    (user.plugins / "broken.py").write_text("import nothing_of_this_name\n")
    user.profiles.mkdir(parents=True)
    (user.profiles / "mine.toml").write_text('extends = "echo"\n[plugins.broken]\non = true\n')
    result = fader("run", "-p", "mine", "hello")
    assert (result.exit_code, result.stdout) == (0, "hello\n")
    assert "fader: plugin 'broken':" in result.stderr
    assert "No module named 'nothing_of_this_name'" in result.stderr
