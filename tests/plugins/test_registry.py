"""Finding plugins: what is broken gets a name and a reason, and never stops the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fader_plugins import registry as registry_module
from fader_plugins.registry import BUILT_IN, Registry, build

HEAD = """
from fader_plugins import PluginInfo, Reading, Settings, hookimpl
info = PluginInfo(name={name!r}, summary="a test")
"""
FINE = HEAD + "@hookimpl\ndef readings(numbers):\n    return [Reading(key='x', label='x', value=1.0)]\n"


def write(folder: Path, stem: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{stem}.py"
    path.write_text(text)
    return path


def only_problem(made: Registry) -> str:
    """The one problem's detail; everything that ships works in spite of it."""
    assert set(BUILT_IN) <= {plugin.info.name for plugin in made.usable()}
    (problem,) = made.problems
    assert made.plugins[problem.plugin].problem == problem.detail
    assert problem.plugin not in {plugin.info.name for plugin in made.usable()}
    return problem.detail


def test_built_ins_in_order() -> None:
    """All built-in plugins are usable, in their order, with summaries and without problems."""
    made = build(None)
    assert list(BUILT_IN) == list(made.plugins)
    assert not made.problems
    for plugin in made.plugins.values():
        assert (plugin.origin, plugin.problem) == ("built in", None)
        assert plugin.info.summary
        assert plugin.hooks


def test_a_single_file(tmp_path: Path) -> None:
    """A file in the folder is loaded after the built-ins, with its path as origin and its hooks named."""
    path = write(tmp_path, "anything", FINE.format(name="mine"))
    made = build(tmp_path)
    assert [*BUILT_IN, "mine"] == list(made.plugins)
    assert (str(path), ("readings",)) == (made.plugins["mine"].origin, made.plugins["mine"].hooks)


def test_an_object_called_plugin(tmp_path: Path) -> None:
    """A module may hold its hooks in an object named `plugin`, so that it can keep state."""
    text = """
from fader_plugins import PluginInfo, Reading, hookimpl
class Counter:
    info = PluginInfo(name="counter", summary="counts")
    @hookimpl
    def readings(self, numbers):
        return [Reading(key="x", label="x", value=1.0)]
plugin = Counter()
"""
    write(tmp_path, "counter", text)
    assert build(tmp_path).plugins["counter"].hooks == ("readings",)


def test_files_in_order_and_private_ones_left_out(tmp_path: Path) -> None:
    """Files load by name; those with an underscore, other endings and folders are not plugins."""
    for stem in ("b", "a", "_hidden"):
        write(tmp_path, stem, FINE.format(name=stem.strip("_")))
    (tmp_path / "note.txt").write_text("no plugin")
    (tmp_path / "folder").mkdir()
    assert [*BUILT_IN, "a", "b"] == list(build(tmp_path).plugins)


@pytest.mark.parametrize("folder", ["missing", "file.txt"])
def test_a_folder_that_is_none(tmp_path: Path, folder: str) -> None:
    """No plugin folder, or a file in its place, is the same as an empty one."""
    (tmp_path / "file.txt").write_text("")
    assert list(BUILT_IN) == list(build(tmp_path / folder).plugins)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_anywhere\n", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("def broken(:\n", "SyntaxError"),
        ("raise ValueError('two\\nlines')\n", "ValueError: two lines"),
        ("import sys; sys.exit(4)\n", "it called sys.exit(4)"),
        ("x = 1\n", "no `info = PluginInfo(...)`"),
        ("info = 'text'\n", "no `info = PluginInfo(...)`"),
        (HEAD.format(name="Not-Good"), "'Not-Good' is not a lower-case identifier"),
        (HEAD.format(name=""), "'' is not a lower-case identifier"),
        (HEAD.format(name="sampler"), "the name 'sampler' is taken by built in"),
        (
            HEAD.format(name="x") + "@hookimpl(specname='readings')\ndef rows(numbers):\n    return []\n",
            "rows uses specname",
        ),
        (HEAD.format(name="x") + "@hookimpl\ndef readings(numbers=None):\n    return []\n", "never passed (numbers)"),
        (HEAD.format(name="x") + "@hookimpl\ndef reading(numbers):\n    return []\n", "there is no hook 'reading'"),
        (HEAD.format(name="x") + "@hookimpl\ndef BackendInfo():\n    return []\n", "there is no hook 'BackendInfo'"),
        (HEAD.format(name="x") + "@hookimpl\ndef readings(figures):\n    return []\n", "figures"),
        (
            HEAD.format(name="x") + "class S(Settings, frozen=True, kw_only=True):\n    a: int\n"
            "info = PluginInfo(name='x', summary='', settings=S)\n",
            "its settings need defaults",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used(tmp_path: Path, text: str, reason: str) -> None:
    """Each fault becomes one problem on one line that names the file and says why; the others load."""
    path = write(tmp_path, "stranger", text)
    detail = only_problem(build(tmp_path))
    assert reason in detail
    assert detail.startswith(str(path))
    assert "\n" not in detail


def test_a_broken_file_named_like_a_built_in(tmp_path: Path) -> None:
    """A broken file called sampler.py does not take the sampler away."""
    write(tmp_path, "sampler", "raise RuntimeError('no')\n")
    made = build(tmp_path)
    assert "RuntimeError: no" in only_problem(made)
    assert made.plugins["sampler"].problem is None


def test_one_of_two_files_of_one_name(tmp_path: Path) -> None:
    """Of two files that claim a name the first keeps it, and the second is told by whom it is taken."""
    first = write(tmp_path, "a", FINE.format(name="twin"))
    write(tmp_path, "b", FINE.format(name="twin"))
    made = build(tmp_path)
    assert f"taken by {first}" in only_problem(made)
    assert str(first) == made.plugins["twin"].origin


def test_a_refused_plugin_leaves_no_hook_behind(tmp_path: Path) -> None:
    """A plugin refused for one hook does not stay registered with another; a later one may have its name."""
    bad = "@hookimpl\ndef plan_request(draft):\n    raise RuntimeError\n@hookimpl\ndef readings(figures):\n    return []\n"
    write(tmp_path, "a", HEAD.format(name="mine") + bad)
    write(tmp_path, "b", FINE.format(name="mine"))
    made = build(tmp_path)
    only_problem(made)
    assert made.plugins["mine"].problem is None
    assert "mine" not in {each.plugin_name for each in made.manager.hook.plan_request.get_hookimpls()}


def test_a_slow_import_is_noted_but_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import above the bound becomes a note with its time; the plugin works all the same."""
    monkeypatch.setattr(registry_module, "SLOW_IMPORT_MS", -1.0)
    write(tmp_path, "slow", FINE.format(name="slow"))
    made = build(tmp_path, built_in=())
    (problem,) = made.problems
    assert (problem.plugin, made.plugins["slow"].problem) == ("slow", None)
    assert "ms" in problem.detail


def distribution(folder: Path, entries: str) -> None:
    """Lay out an installed distribution by hand: a module, its metadata, its entry points."""
    write(folder, "their_module", FINE.format(name="theirs"))
    info = folder / "their_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fader]\n{entries}\n")


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed plugins come after the built-ins and before files, under their distribution's name; broken ones are named."""
    distribution(tmp_path / "site", "theirs = their_module\ngone = their_module:nothing\nlost = no_such_thing")
    write(tmp_path / "user", "mine", FINE.format(name="mine"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = build(tmp_path / "user")
    assert [plugin.info.name for plugin in made.usable()][len(BUILT_IN) :] == ["theirs", "mine"]
    assert made.plugins["theirs"].origin == "their-package"
    assert sorted(problem.plugin for problem in made.problems) == ["gone", "lost"]
    assert "no_such_thing" in made.plugins["lost"].problem  # type: ignore[operator]


def test_listing_imports_no_model_library() -> None:
    """Finding all plugins and asking for all backends imports neither torch, transformers, llama_cpp nor textual."""
    code = """
import sys
from fader_plugins.calls import Hooks
from fader_plugins.registry import build
made = build(None)
names = [info.name for info in Hooks(made, made.plugins, lambda *fault: print(fault)).backends()]
heavy = {"torch", "transformers", "llama_cpp", "textual"} & set(sys.modules)
print(names, heavy)
assert names and not heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
