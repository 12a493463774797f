"""The two themes of the house, a calm dark one and a calm light one.

Knows colours only. The state of anything is always shown by a sign as well, so that no meaning hangs on a colour.
"""

from __future__ import annotations

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
