"""`Switches`: throwing switches by name, and using and saving profiles.

Knows the app's parts by name; `app.py` puts them together.
"""

from __future__ import annotations

from typing import Any

from fader_backends.errors import BadValue

from .. import profiles
from .contain import contained_callback
from .lines import Lines


class Switches(Lines):
    """What palette and slash commands do to plugins and profiles."""

    def watch_chat(self) -> None:
        """Hold the chat against the limits of the profile from now on."""
        raise NotImplementedError

    # --- switches and profiles ----------------------------------------------------------------------------------------

    def throw(self, name: str, on: bool) -> None:
        """Throw a plugin's switch. Raises FaderError."""
        self.side.throw(name, on)
        self.notify(f"{name} is {'on' if on else 'off'} from the next turn.", markup=False, timeout=2)

    def set_value(self, name: str, key: str, value: Any) -> None:
        """Change a setting. Raises FaderError."""
        self.side.set_value(name, key, value)

    def use_profile(self, name: str) -> None:
        """Take switches, settings and model from another profile, from the next turn on. Raises FaderError."""
        from ..switchboard import Switchboard

        chat, side = self.ready(), self.side
        profile = profiles.load(name, self.paths)
        chat.board = Switchboard(chat.board.registry, profile, side.fault)
        self.profile = profile
        side.comparison.switched()
        side.open(chat.board)
        self.watch_chat()
        self.problem = self.house.problem(profile)
        self.show_title()
        self.show_empty()
        self.notify(f"Profile {profile.name} from the next turn.", markup=False, timeout=3)

    def action_save_profile(self) -> None:
        """Ask for a name and save the switches as they stand."""
        from .screens import Ask

        def named(name: str | None) -> None:
            if name:
                self.save_profile(name)

        self.push_screen(Ask("Save the switches as they stand under which name?"), contained_callback(self, named))

    def save_profile(self, name: str) -> None:
        """Write a profile to the user's folder, asking before one is replaced. Raises FaderError."""
        from .screens import Confirm

        if not name.replace("-", "").replace("_", "").isalnum():
            raise BadValue(f"{name!r} cannot be a profile's name.", "", "Use letters, digits, - and _.")
        path = self.paths.profiles / f"{name}.toml"

        def write(yes: bool | None) -> None:
            if yes:
                board = self.ready().board
                known = {key: plugin.info for key, plugin in board.registry.plugins.items()}
                profile_files.save(board.to_profile(name), path, known)
                self.notify(f"Saved as {path}. Use it with: fader -p {name}", title="Profile", markup=False)

        from .. import profile_files

        if path.exists():
            self.push_screen(
                Confirm(f"{path} is there already. Replace it?", "Replace"), contained_callback(self, write)
            )
        else:
            write(True)
