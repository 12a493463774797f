"""`Rack`: one strip for each plugin, drawn as rows with a cursor; switches and settings are changed in place.

Knows the rows of `desk` and keys; what a change means is the switchboard's affair.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .desk import Line
from .flow import clean

LABEL = 19
SLIDER = 10


class Rack(ScrollView, can_focus=True):
    """The strips. One stop for Tab; Up and Down move inside."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rack--name",
        "rack--on",
        "rack--off",
        "rack--muted",
        "rack--value",
        "rack--changed",
        "rack--reason",
        "rack--cursor",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up"),
        Binding("down,j", "move(1)", "Down"),
        Binding("space", "throw", "Switch"),
        Binding("left,minus", "step(-1)", "Less"),
        Binding("right,plus", "step(1)", "More"),
        Binding("home", "move(-999)", "First"),
        Binding("end", "move(999)", "Last"),
    ]

    class Switched(Message):
        """A plugin's switch was thrown."""

        def __init__(self, plugin: str, on: bool) -> None:
            super().__init__()
            self.plugin = plugin
            self.on = on

    class Changed(Message):
        """A setting was given another value; text is read as the setting's type."""

        def __init__(self, plugin: str, key: str, value: Any) -> None:
            super().__init__()
            self.plugin = plugin
            self.key = key
            self.value = value

    class Folded(Message):
        """A plugin's settings should be hidden or shown."""

        def __init__(self, plugin: str) -> None:
            super().__init__()
            self.plugin = plugin

    class Looked(Message):
        """The cursor stands on another row, or that row changed; None: the keys are elsewhere."""

        def __init__(self, line: Line | None) -> None:
            super().__init__()
            self.line = line

    def __init__(self) -> None:
        super().__init__(id="rack")
        self.lines: list[Line] = []
        self.cursor = 0
        self.typed: str | None = None
        """What is being entered for the row under the cursor."""

    @property
    def line(self) -> Line | None:
        """The row under the cursor."""
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    def show(self, lines: list[Line]) -> None:
        """Draw these rows; only those that changed are repainted."""
        old, self.lines = self.lines, lines
        self.virtual_size = Size(self.size.width, len(lines))
        if len(old) != len(lines):
            self.cursor = min(self.cursor, max(len(lines) - 1, 0))
            self.refresh()
        else:
            for place, (before, after) in enumerate(zip(old, lines, strict=True)):
                if before != after:
                    self._repaint(place)
        self.look()

    def look(self) -> None:
        """Tell which row is looked at; none while the keys are elsewhere."""
        self.post_message(self.Looked(self.line if self.has_focus else None))

    def _repaint(self, place: int) -> None:
        self.refresh(Region(0, place - self.scroll_offset.y, self.size.width, 1))

    # --- keys ---------------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move the cursor to the next row it may stand on."""
        reachable = [place for place, line in enumerate(self.lines) if line.reachable]
        if not reachable:
            return
        here = reachable.index(self.cursor) if self.cursor in reachable else 0
        self._go(reachable[min(max(here + step, 0), len(reachable) - 1)])

    def _go(self, place: int) -> None:
        before, self.cursor, self.typed = self.cursor, place, None
        self._repaint(before)
        self._repaint(place)
        self.scroll_to_region(Region(0, max(place - 1, 0), 1, 3), animate=False)
        self.post_message(self.Looked(self.line))

    def action_throw(self) -> None:
        """Throw the switch of the row's plugin, or of an on/off setting."""
        line = self.line
        if line is None or not line.usable:
            self.app.bell()
        elif line.kind == "switch" and line.toggle:
            self.post_message(self.Switched(line.plugin, not line.on))
        elif line.field is not None:
            self.action_step(1)

    def action_step(self, direction: int) -> None:
        """Change the value by one step; on a switch, left is off and right is on."""
        line = self.line
        if line is None or not line.usable:
            self.app.bell()
        elif line.kind == "switch" and line.toggle:
            if line.on != (direction > 0):
                self.post_message(self.Switched(line.plugin, direction > 0))
        elif line.field is not None:
            self._change(line, line.field.stepped(line.acting, direction))

    def _change(self, line: Line, value: Any) -> None:
        if line.field is not None and value != line.value:
            self.post_message(self.Changed(line.plugin, line.field.name, value))

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event):
            event.stop()
            event.prevent_default()

    def _handled(self, event: events.Key) -> bool:
        line, key = self.line, event.key
        if line is None:
            return False
        if self.typed is not None:
            return self._entering(line, event)
        if key == "enter" and line.kind == "switch":
            self.post_message(self.Folded(line.plugin))
        elif line.field is None or not line.usable:
            return False
        elif key == "enter" and line.field.kind in ("switch", "choice"):
            self.action_step(1)
        elif key == "enter":
            self._type("" if line.acting is None else line.field.shown(line.acting))
        elif key in ("backspace", "delete"):
            self._change(line, line.field.default)
        elif (
            line.field.kind in ("whole", "number") and event.character is not None and event.character in "0123456789."
        ):
            self._type(event.character)
        else:
            return False
        return True

    def _entering(self, line: Line, event: events.Key) -> bool:
        typed = self.typed or ""
        if event.key == "enter" and line.field is not None:
            self.typed = None
            self.post_message(self.Changed(line.plugin, line.field.name, typed))
        elif event.key == "escape":
            self.typed = None
        elif event.key == "backspace":
            self.typed = typed[:-1]
        elif event.is_printable and event.character is not None:
            self.typed = typed + event.character
        else:
            return event.key in ("left", "right", "home", "end")
        self._repaint(self.cursor)
        return True

    def _type(self, text: str) -> None:
        self.typed = text
        self._repaint(self.cursor)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; a click on a switch throws it, a click on a slider sets it."""
        place = event.y + self.scroll_offset.y
        if not 0 <= place < len(self.lines) or not self.lines[place].reachable:
            return
        self._go(place)
        line = self.lines[place]
        begin = LABEL + 3
        if line.kind == "switch" and event.x < 5:
            self.action_throw()
        elif line.field is not None and line.usable and begin <= event.x < begin + SLIDER:
            if line.field.share(line.acting) is not None:
                self._change(line, line.field.at((event.x - begin) / (SLIDER - 1)))
            elif line.field.kind in ("switch", "choice"):
                self.action_step(1)

    def on_focus(self) -> None:
        """Put the cursor on a row where it may stand."""
        if self.line is None or not self.line.reachable:
            self.action_move(0)
        self._repaint(self.cursor)
        self.post_message(self.Looked(self.line))  # `has_focus` is set only after this handler

    def on_blur(self) -> None:
        """Give up an entry that was not finished."""
        self.typed = None
        self._repaint(self.cursor)
        self.post_message(self.Looked(None))

    # --- drawing ------------------------------------------------------------------------------------------------------

    def _on_resize(self, event: events.Resize) -> None:
        self.virtual_size = Size(event.size.width, len(self.lines))

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width, base, place = self.size.width, self.rich_style, y + self.scroll_offset.y
        if place >= len(self.lines):
            return Strip.blank(width, base)
        line = self.lines[place]
        here = place == self.cursor and self.has_focus
        pieces = [("›" if here else " ", "name"), *self._pieces(line, here, width)]
        over = self.get_component_rich_style("rack--cursor", partial=True) if here else Style.null()
        segments = [
            Segment(clean(text), (base if style == "" else self.get_component_rich_style(f"rack--{style}")) + over)
            for text, style in pieces
        ]
        return Strip(segments).adjust_cell_length(width, base + over)

    def _pieces(self, line: Line, here: bool, width: int) -> list[tuple[str, str]]:
        match line.kind:
            case "switch":
                if not line.usable:
                    return [("[x] ", "muted"), (line.text, "muted")]
                return [("[●] " if line.on else "[ ] ", "on" if line.on else "off"), (line.text, "name")]
            case "summary" | "reason":
                style = "reason" if line.kind == "reason" else "muted"
                room = width - 6
                return [("    ", ""), (line.text if len(line.text) <= room else line.text[: room - 1] + "…", style)]
            case "setting":
                return self._setting(line, here)
        return []

    def _setting(self, line: Line, here: bool) -> list[tuple[str, str]]:
        field = line.field
        assert field is not None
        dull = not (line.on and line.usable)
        label = ("  " + line.text)[:LABEL].ljust(LABEL) + "  "
        if here and self.typed is not None:
            return [(label, "name"), (f"{self.typed}▏", "value")]
        share = field.share(line.acting)
        style = "changed" if line.changed else "value"
        style = "muted" if dull or line.value is None else style
        if share is not None:
            knob = round(share * (SLIDER - 1))
            slider = "━" * knob + "●" + "─" * (SLIDER - 1 - knob)
        elif field.kind in ("switch", "choice"):
            slider = "‹ ›".ljust(SLIDER)
        else:
            slider = "·" * SLIDER
        return [(label, "muted"), (slider, "muted" if dull else "on"), (f" {field.shown(line.acting)}", style)]
