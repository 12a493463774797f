"""Benchmarks: `python -m tests.bench NAME` from the root of the repository. README.md says what each one measures."""
