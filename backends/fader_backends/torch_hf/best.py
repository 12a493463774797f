"""Finds the largest scores where they lie, so that a row of the whole vocabulary stays on its device.

Knows tensors only; what becomes of the scores is `fader_backends.sampling`'s.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fader_backends.base import Best

PLACES = ("auto", "device", "host")
"""`best_on`: where they are found. `auto`: on the device, unless that is the CPU, where numpy finds them as fast."""


def finds(place: str, device: torch.device) -> bool:
    """Whether scores are searched on `device`."""
    return place == "device" or (place == "auto" and device.type != "cpu")


def best(scores: Tensor, count: int) -> list[Best]:
    """Return each row's `count` largest; `scores`: float32, shape (rows, vocabulary), maxima finite, 0 < count < vocabulary.

    All that reach the count-th largest are fetched and put in order here: torch leaves open which of equal ones it takes.
    """
    bounds = scores.topk(count).values[:, -1:]
    places = (scores >= bounds).nonzero()
    reached: list[list[tuple[float, int]]] = [[] for _ in range(len(scores))]
    for (row, token), score in zip(places.tolist(), scores[places[:, 0], places[:, 1]].tolist(), strict=True):
        reached[row].append((score, token))
    found = []
    for pairs in reached:
        pairs.sort(key=lambda pair: -pair[0])  # equal ones stay in the order of their tokens
        found.append(Best([token for _, token in pairs[:count]], [score for score, _ in pairs[:count]]))
    return found
