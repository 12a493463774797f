"""The lab: claims as evidence that someone else can run again.

Knows engines, profiles and files; no screen.
"""
