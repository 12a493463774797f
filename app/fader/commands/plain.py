"""Text of strangers on a terminal: what would move the cursor, change colours or answer back is made visible instead.

Knows control characters, not where text comes from.
"""

from __future__ import annotations

from typing import TextIO

CONTROLS = {code: 0xFFFD for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def plain(text: str, out: TextIO) -> str:
    """Return `text` as `out` should get it: changed only for a terminal, so that files hold what was said."""
    return text.translate(CONTROLS) if out.isatty() else text
