"""The two themes of the house, a calm dark one and a calm light one.

Knows colours only. The state of anything is always shown by a sign as well, so that no meaning hangs on a colour.
"""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.theme import Theme

DARK = Theme(
    name="fader-dark",
    primary="#7fb2c8",
    secondary="#8fa3b8",
    accent="#e0a35c",
    foreground="#d5d9df",
    background="#15171b",
    surface="#1b1e23",
    panel="#22262d",
    success="#8fbf86",
    warning="#e0b45c",
    error="#dd7a72",
    dark=True,
    variables={"footer-key-foreground": "#e0a35c"},
)

LIGHT = Theme(
    name="fader-light",
    primary="#2b6a86",
    secondary="#5b6b7c",
    accent="#a85f10",
    foreground="#2a2d33",
    background="#faf8f4",
    surface="#f1eee8",
    panel="#e8e4dc",
    success="#3f7d3a",
    warning="#946200",
    error="#b03a30",
    dark=False,
    variables={"footer-key-foreground": "#a85f10"},
)


def begin_with(app: App[Any], name: str) -> None:
    """Set the first theme, the dark one where `name` is not known.

    Assigning `theme` would parse the whole style sheet a second time.
    """
    name = name if name in app.available_themes else DARK.name
    app.set_reactive(App.theme, name)
    app.stylesheet.set_variables(app.get_css_variables())
    dark = app.current_theme.dark
    for kind, on in (("-dark-mode", dark), ("-light-mode", not dark), (f"-theme-{name}", True)):
        app.set_class(on, kind, update=False)
