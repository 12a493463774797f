"""`FaderApp`: puts the parts of the screen together and passes what happens from one to the other.

Knows the conversation controller and the widgets; draws nothing itself. Parts behind the screen open after the first frame.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, ClassVar

import msgspec
from fader_backends.errors import FaderError, Failure
from fader_plugins.turn import PluginFault
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from . import bars, stands, theme
from .bars import Bar
from .contain import contained
from .frames import Frames
from .house import House, Memory, recall, remember
from .messages import numbers_of
from .prompt import Prompt
from .screen_cost import ScreenCost
from .side import Side
from .talk import Talk
from .transcript import Transcript

if TYPE_CHECKING:
    from fader_plugins.turn import AnyEvent

    from ..chat import Chat, Turn
    from ..profiles import Profile
    from .house import RunningEngine

NUMBERS_S = 0.5
"""How often the numbers are drawn while a reply runs."""


class FaderApp(Talk):
    """The chat."""

    CSS_PATH = "chat.tcss"
    TITLE = "Fader"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - Textual declares it on instances
    VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-tall")]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, twice quits", priority=True, system=True),
        Binding("escape", "stop", "Stop"),
        Binding("ctrl+n", "new", "New chat"),
        Binding("ctrl+r", "chats", "Chats"),
        Binding("f1", "help", "Help"),
        Binding("f2", "rack", "Rack"),
        Binding("f3", "numbers", "Numbers"),
        Binding("ctrl+l", "redraw", "Redraw"),
    ]

    def __init__(self, house: House, profile: Profile, resume: bool = False) -> None:
        super().__init__()
        self.house = house
        self.paths = house.paths
        self.profile = profile
        self.resume = resume
        self.memory = recall(self.paths.state)
        self.register_theme(theme.DARK)
        self.register_theme(theme.LIGHT)
        theme.begin_with(self, self.memory.theme)
        self.frames, self.cost = Frames(self.draw), ScreenCost()
        self.transcript = Transcript()
        self.prompt = Prompt(self.memory.draft)
        self.side = Side(self.show_state, self.adjust, self.thrown)
        self.chat: Chat | None = None
        self.engine: RunningEngine | None = None
        self.viewed: Turn | None = None
        self.seen = 0
        self.drawn_numbers = 0.0
        self.editing = self.edited = None
        self.read = 0
        self.early: list[str] | None = []
        self.problem: Failure | None = None
        self.numbers = None
        self.interrupted_at = float("-inf")

    def compose(self) -> ComposeResult:
        """Build the parts of the first frame."""
        yield Bar("title")
        with Horizontal(id="body"):
            yield self.transcript
            yield self.side
        yield Bar("waiting")
        yield self.prompt
        yield Bar("context")
        yield Bar("keys")

    def on_mount(self) -> None:
        """Show the empty screen, then open what is behind it."""
        self.frames.open()
        self.prompt.focus()
        self.show_title()
        self.show_state()
        self.show_empty()
        self.call_after_refresh(self.open_house)
        self.watch_terminal()

    async def open_house(self) -> None:
        """Find the plugins and show them; then, when they are on the screen, the rest."""
        await self.open_side()
        self.call_after_refresh(self.open_rest)

    def open_rest(self) -> None:
        """Open the conversations, start the engine, and send what was typed meanwhile."""
        self.open_chat()
        stands()
        early, self.early = self.early, None
        take = self.prompt.give_back if self.chat is None else self.submit
        for text in early or ():
            take(text)
        self.show_state()

    @contained
    async def open_side(self) -> None:
        """Find the plugins and show their switches."""
        from ..switchboard import Switchboard

        registry = await asyncio.to_thread(self.house.registry)
        try:
            board = Switchboard(registry, self.profile, self.side.fault)
        except FaderError as error:
            self.tell(error.failure)
            board = Switchboard(registry, msgspec.structs.replace(self.profile, plugins={}), self.side.fault)
        self.side.open(board)
        self.problem = self.house.problem(self.profile)
        self.show_empty()
        for problem in registry.problems:
            self.tell(Failure(f"Plugin {problem.plugin!r}", problem.detail, "The rack (F2) shows it."))

    @contained
    def open_chat(self) -> None:
        """Open the conversations and start the engine. Tried again at the next sending when it fails."""
        from ..chat import Chat

        if self.side.board is None:
            return
        store = self.house.store()
        if store.notice:
            self.notify(store.notice, title="Conversations", severity="warning", timeout=15, markup=False)
        self.engine = self.house.engine(self.frames.emit)
        self.chat = Chat(
            store,
            self.side.board,
            self.engine,
            self,
            now=self.house.now,
            seconds=time.monotonic,
            nanoseconds=time.perf_counter_ns,
            new_id=lambda: uuid.uuid4().hex,
        )
        last = store.last() if self.resume else None
        if last is not None:
            self.chat.resume(last.id)
        elif self.resume:
            self.notify("There is no earlier conversation yet: this is a new one.", markup=False)
        self.show_title()
        self.watch_chat()
        self.engine.start()
        self.look_ahead()

    # --- what the controller says (`Viewer`) --------------------------------------------------------------------------

    def turn_began(self, turn: Turn) -> None:
        """Show the question and a window for the reply."""
        self.cost.begin()
        self.gate_begins(turn)
        self.call_later(self.begin_view, turn)
        self.frames.wake()

    def turn_ended(self, turn: Turn) -> None:
        """Put the whole reply in place of the running one."""
        self.call_later(self.end_view, turn)
        self.gate_ends(turn)

    def path_changed(self) -> None:
        """Show the messages of another conversation or branch."""
        self.call_later(self.show_path)

    def queue_changed(self) -> None:
        """Show what waits."""
        self.show_state()

    def returned(self, text: str) -> None:
        """Put text that was not sent back into the prompt."""
        self.prompt.give_back(text)

    @contained
    async def begin_view(self, turn: Turn) -> None:
        """Mount what shows a turn, unless another conversation is in view by now."""
        if self.chat is None or self.chat.conversation is None or turn.conversation != self.chat.conversation.id:
            return
        shown = self.transcript.nodes
        if shown and turn.question.id not in [node.id for node in shown] and shown[-1].id != turn.question.parent:
            await self.transcript.show(self.chat.store.path(turn.question.parent))
        elif turn.question.id in [node.id for node in shown]:
            await self.transcript.show(self.chat.store.path(turn.question.id))
        await self.transcript.begin(turn.question)
        self.count_versions()
        self.viewed, self.seen = turn, 0
        self.show_title()
        self.show_state()

    @contained
    async def end_view(self, turn: Turn) -> None:
        """Show a turn's end; Markdown is made when nothing else runs."""
        idle = self.chat is None or self.chat.turn is None
        if turn is self.viewed:
            self.viewed = None
            await self.transcript.end(turn.reply, idle)
        elif turn.stats.failure is not None:
            self.tell(turn.stats.failure)
        numbers = turn.stats.numbers()
        if numbers.finish_reason != "failed" or numbers.output_tokens:
            self.numbers = numbers
        whole = numbers.finish_reason in ("end", "stop", "length")
        self.side.show_numbers(numbers, self.cost.readings(), turn.stats if whole else None)
        self.count_versions()
        if numbers.finish_reason == "context":
            step = "Start a new chat (Ctrl+N), edit the last message (Up), or give kv_cache a longer context (F2)."
            self.tell(Failure("The context is full.", "The reply was stopped there; nothing was cut away.", step))
        self.show_state()
        self.look_ahead()

    @contained
    async def show_path(self) -> None:
        """Show the conversation in view from its end."""
        if self.chat is not None:
            self.viewed = None
            nodes = self.chat.nodes()
            self.numbers = numbers_of(nodes)
            await self.transcript.show(nodes)
            self.count_versions()
            if self.numbers is not None:
                self.side.show_numbers(self.numbers, (), None)
        self.show_title()
        self.show_empty()
        self.show_state()
        self.look_ahead()

    # --- frames -------------------------------------------------------------------------------------------------------

    def draw(self, events: list[AnyEvent]) -> bool:
        """Take the events since the last frame; return whether more are to come."""
        chat = self.chat
        if chat is None:
            return bool(events)
        for event in events:
            try:
                if isinstance(event, PluginFault):
                    self.side.fault(event.plugin, event.hook, event.detail)
                chat.on_event(event)
            except Exception as error:  # one bad event must not lose the others
                self.broke(error)
        turn, view = self.viewed, self.transcript.running
        if turn is not None and view is not None:
            self.feed(turn, events)
        return chat.turn is not None

    @contained
    def feed(self, turn: Turn, events: list[AnyEvent]) -> None:
        """Draw what came of the reply in view."""
        view = self.transcript.running
        texts = turn.stats.texts
        if view is not None and len(texts) > self.seen:
            view.feed("".join(texts[self.seen :]))
            self.seen = len(texts)
        elif view is not None and view.empty:
            view.say(bars.waiting_for(turn.stats, turn.stopping))
        if time.monotonic() - self.drawn_numbers >= NUMBERS_S:
            self.drawn_numbers = time.monotonic()
            if events:
                self.call_after_refresh(self.cost.painted, events[-1].at_ns)
            self.numbers = turn.stats.numbers()
            self.side.show_numbers(self.numbers, self.cost.readings(), None)
            self.gate_looks(turn)
            self.show_context()

    def shut(self) -> None:
        """Keep the draft and end what runs; called when the terminal is restored."""
        self.frames.close()
        draft = self.prompt.draft if self.editing is None else self.editing
        remember(self.paths.state, Memory(theme=self.theme, draft=draft))
        if self.chat is not None:
            self.chat.close()
        if self.engine is not None:
            self.engine.close()
        if self.chat is not None:
            self.chat.store.close()
