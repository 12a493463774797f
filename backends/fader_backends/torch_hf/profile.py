"""Owns looking into steps with torch's profiler: operators, kernels, and time by class.

Knows sessions by their verbs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.profiler import ProfilerActivity, profile

from fader_backends.base import Session
from fader_backends.operators import STEPS, OperatorClass, Operators, class_of, steps


def look(session: Session, tokens: Sequence[int], label: str, device: torch.device, facts: dict[str, str]) -> Operators:
    """Return what one-token steps of a session that holds a prompt are made of; the session is left as it was."""
    steps(session, tokens, 3)  # whatever is compiled or found out once
    step_ms = steps(session, tokens, STEPS)
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as seen:
        steps(session, tokens, STEPS)
    calls: dict[str, int] = {}
    micros: dict[str, float] = {}
    operators = kernels = 0
    for event in seen.events() or ():
        kind = class_of(event.name)
        if event.device_type.name == "CUDA":
            kernels += 1
            counted, took = cuda, event.self_device_time_total
        elif event.name.startswith("aten::"):
            outermost = event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")
            operators += outermost
            counted, took = outermost and not cuda, event.cpu_time_total
        else:  # what the compiler wrote runs inside its region, beside operators
            counted, took = "Compiled" in event.name and not cuda, event.self_cpu_time_total
        if counted:
            calls[kind] = calls.get(kind, 0) + 1
            micros[kind] = micros.get(kind, 0.0) + took
    return Operators(
        label=label,
        tokens=STEPS,
        step_ms=step_ms,
        calls=operators / STEPS,
        kernels=kernels / STEPS if cuda else None,
        classes=tuple(
            OperatorClass(name=kind, calls=calls[kind] / STEPS, ms=micros[kind] / STEPS / 1000)
            for kind in sorted(calls, key=lambda kind: -micros[kind])
        ),
        facts=facts,
    )
