"""An empty Textual app with Header, Markdown, Input and Footer: what any app's first frame costs at the least."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Footer, Header, Input, Markdown


class Empty(App[None]):
    """Four widgets and one key."""

    BINDINGS = [("ctrl+q", "quit", "Quit")]  # noqa: RUF012 - as Textual's own examples write it

    def compose(self) -> ComposeResult:
        yield Header()
        yield Markdown("Ready.")
        yield Input(placeholder="Ask something")
        yield Footer()


if __name__ == "__main__":
    Empty().run()
