"""Decode loop, scheduler, text assembly, and the process they run in."""
