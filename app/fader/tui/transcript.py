"""`Transcript`: the conversation in view. Only messages near the view are mounted.

Knows nodes and widgets, not where nodes come from. It follows the end until a person scrolls back, and never moves the
view under somebody who reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from ..store import Node
from .messages import ASKS, Answer, Question, rows_of
from .reply import ReplyView

PAGE = 20
"""Messages mounted at first, and at each load of older ones."""
MOST = 60
"""Mounted messages above which the oldest are dropped, while the view follows the end."""

Said = Question | Answer


class Transcript(VerticalScroll):
    """Messages, the running reply below them, and a notice while there are none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "Next message"),
        Binding("k,up", "step(-1)", "Previous message"),
        Binding("g,home", "oldest", "First"),
        Binding("G,end", "follow", "Last"),
        Binding("c,y", "copy", "Copy message"),
        Binding("left", "version(-1)", "Earlier version"),
        Binding("right", "version(1)", "Later version"),
        *(Binding(key, f"ask('{what}')", name) for key, what, name in ASKS),
    ]

    class Copy(Message):
        """Somebody wants this text on the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Version(Message):
        """Somebody wants to see another version of a message."""

        def __init__(self, node: Node, step: int) -> None:
            super().__init__()
            self.node = node
            self.step = step

    class Asked(Message):
        """Somebody wants something done with a message; `what` is one of `ASKS`."""

        def __init__(self, node: Node, what: str) -> None:
            super().__init__()
            self.node = node
            self.what = what

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.counts: dict[int, tuple[int, int]] = {}
        self.remarks: dict[int, str] = {}
        """Reply -> a line of Fader's below it."""
        self.nodes: list[Node] = []
        self.first = 0
        self.running: ReplyView | None = None
        self.following = True
        self.fetching = False
        self.current: Said | None = None

    def compose(self) -> ComposeResult:
        """Begin with the notice that an empty conversation shows."""
        yield Static("", id="empty", markup=False)

    # --- what is shown ------------------------------------------------------------------------------------------------

    async def show(self, nodes: Sequence[Node]) -> None:
        """Show other messages, from the end."""
        with self._at_once():
            await self.query(".said").remove()
            await self._drop_running()
            self.nodes, self.current, self.following = list(nodes), None, True
            self.first = max(len(self.nodes) - PAGE, 0)
            self.query_one("#empty").display = not nodes
            await self.mount_all([self._widget(node) for node in self.nodes[self.first :]])
        await self.settle()
        self.follow()

    async def begin(self, question: Node) -> ReplyView:
        """Show a question and return the window for its reply."""
        with self._at_once():
            self.query_one("#empty").display = False
            await self._drop_running()
            for answer in self.query(Answer):
                answer.styles.min_height = None
            if question.id not in [node.id for node in self.nodes]:
                self.nodes.append(question)
                await self.mount(self._widget(question))
            self.running = ReplyView(self._room(question))
            await self.mount(self.running)
            await self._prune()
        self.follow()
        return self.running

    async def end(self, reply: Node, now: bool) -> None:
        """Put the finished reply where the running one was. `now`: make it Markdown at once."""
        stick = self.following
        answer = Answer(reply, self.remarks.get(reply.id, ""))
        with self._at_once():
            if self.running is not None:
                answer.styles.min_height = self.running.styles.height
            self.nodes.append(reply)
            await self.mount(answer)
            await self._drop_running()
            if now:
                await self.settle()
        if stick:
            self.follow()

    async def settle(self) -> None:
        """Turn replies that are still plain into Markdown, the last one first."""
        for answer in reversed(list(self.query(Answer))):
            await answer.settle()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        if self.running is not None:
            self.running.follow()
        self.scroll_end(animate=False, immediate=False)

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Paint what happens inside in one go."""
        with self.app.batch_update():
            yield
        # The end of a batch wakes the app but not the screen, which would lay out only with its next message.
        self.screen.check_idle()

    def count(self, counts: dict[int, tuple[int, int]]) -> None:
        """Show beside each message which version it is: message -> (place, how many)."""
        self.counts = counts
        for said in self.query(".said"):
            if isinstance(said, Question | Answer):
                said.count(counts.get(said.node.id))

    def _widget(self, node: Node) -> Said:
        made = Question(node) if node.role == "user" else Answer(node, self.remarks.get(node.id, ""))
        made.count(self.counts.get(node.id))
        return made

    def _room(self, question: Node) -> int:
        """Return the height left for a reply when its question stands at the top."""
        height = self.scrollable_content_region.height
        taken = rows_of(question.content, self.scrollable_content_region.width - 4)
        return max(height - min(taken, height // 2) - 2, 1)

    async def _drop_running(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            await running.remove()

    async def _prune(self) -> None:
        said = list(self.query(".said"))
        if self.following and len(said) > MOST:
            extra = said[: len(said) - PAGE]
            self.first += len(extra)
            await self.remove_children(extra)

    # --- looking around -----------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note whether the view is at the end; load older messages near the top."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) == round(new_value):
            return
        self.following = new_value >= self.max_scroll_y - 1
        if new_value < 3 and new_value < old_value and self.first and not self.fetching:
            self.fetching = True
            self.call_later(self._load_older)

    async def _load_older(self) -> None:
        start = max(self.first - PAGE, 0)
        widgets = [self._widget(node) for node in self.nodes[start : self.first]]
        before, at = self.virtual_size.height, self.scroll_y
        with self._at_once():
            await self.mount_all(widgets, before=self.query(".said").first())
            self.first = start
            for widget in widgets:
                if isinstance(widget, Answer):
                    await widget.settle()
        self._keep_place(before, at, before, 30)

    def _keep_place(self, before: int, at: float, seen: int, tries: int) -> None:
        """Scroll by what came in above once it is laid out, so that what was in view stays in view."""
        height = self.virtual_size.height
        if tries and (height == before or height != seen):
            self.set_timer(0.02, lambda: self._keep_place(before, at, height, tries - 1))
            return
        self.scroll_to(y=at + height - before, animate=False, immediate=True)
        self.fetching = False

    def page(self, step: int) -> None:
        """Move by most of a page: inside the running reply first, then in the transcript."""
        rows = max(self.scrollable_content_region.height - 2, 1)
        self.rows(step * rows)

    def rows(self, step: int) -> None:
        """Move by rows; see `page`."""
        if self.running is None or not self.running.scroll_rows(step):
            self.scroll_relative(y=step, animate=False)

    def action_follow(self) -> None:
        """Go to the end."""
        self.follow()

    def action_oldest(self) -> None:
        """Go to the first mounted message."""
        self.scroll_home(animate=False)

    def action_step(self, step: int) -> None:
        """Mark the next or previous message."""
        said = [widget for widget in self.query(".said") if isinstance(widget, Question | Answer)]
        if not said:
            return
        place = said.index(self.current) + step if self.current in said else len(said) - 1
        self._mark(said[min(max(place, 0), len(said) - 1)])

    def action_copy(self) -> None:
        """Copy the marked message, or the last one."""
        node = self.marked()
        if node is not None:
            self.post_message(self.Copy(node.content))

    def action_version(self, step: int) -> None:
        """Ask for another version of the marked message, or of the last one."""
        node = self.marked()
        if node is not None:
            self.post_message(self.Version(node, step))

    def action_ask(self, what: str) -> None:
        """Ask for something to be done with the marked message, or the last one."""
        node = self.marked()
        if node is not None:
            self.post_message(self.Asked(node, what))

    def marked(self) -> Node | None:
        """Return the marked message, else the last one."""
        return self.current.node if self.current else self.nodes[-1] if self.nodes else None

    def mark(self, node: int) -> None:
        """Mark a message, if it is mounted."""
        for said in self.query(".said"):
            if isinstance(said, Question | Answer) and said.node.id == node:
                self._mark(said)

    def _mark(self, said: Said | None) -> None:
        if self.current is not None:
            self.current.remove_class("-current")
        self.current = said
        if said is not None:
            said.add_class("-current")
            said.scroll_visible(animate=False)

    def on_click(self, event: events.Click) -> None:
        """Mark the message under the pointer."""
        widget = event.widget
        while widget is not None and widget is not self:
            if isinstance(widget, Question | Answer):
                self._mark(widget)
                return
            widget = widget.parent  # type: ignore[assignment]

    def on_blur(self) -> None:
        """Take the mark away when the keys go elsewhere."""
        self._mark(None)

    def on_resize(self) -> None:
        """Give the running reply the room there is now."""
        for answer in self.query(Answer):
            answer.styles.min_height = None
        if self.running is not None:
            self.running.styles.height = self._room(self.nodes[-1])
        if self.following:
            self.call_after_refresh(self.follow)
