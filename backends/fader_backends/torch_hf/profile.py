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
        on_device = event.device_type.name == "CUDA"
        compiled = not on_device and ("Compiled" in event.name or "fused" in event.name)
        if not (on_device or compiled or event.name.startswith("aten::")):
            continue
        kind = class_of(event.name)
        leaf = not any(child.name.startswith("aten::") for child in event.cpu_children)
        operators += not on_device and leaf
        kernels += on_device
        calls[kind] = calls.get(kind, 0) + (on_device if cuda else leaf)
        own = event.self_device_time_total if cuda else event.self_cpu_time_total
        micros[kind] = micros.get(kind, 0.0) + (own if on_device or not cuda else 0.0)
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
