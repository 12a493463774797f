"""Profiles as data: one TOML file each."""
