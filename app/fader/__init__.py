"""The host: engine, store, command line and screen. Imports `fader_backends` and `fader_plugins`."""

__version__ = "0.1.0"
