"""Small networks for the studies: three layers, Adam, dropout or batch normalisation; numpy only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BATCH = 128
KEPT = 0.75
MOMENTUM = 0.99
EPSILON = 1e-3


def auc(score: NDArray[np.floating], label: NDArray[np.integer]) -> float:
    """Return the area under the ROC curve, ties counting one half."""
    values, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=label, minlength=values.size)
    misses = counts - hits
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


@dataclass
class Network:
    """Weights as views of one vector, so that a step of Adam is one operation on it.

    Attributes
    ----------
    widths
        Of the inputs and the hidden layers.
    kind
        ``"none"``, ``"dropout"`` (a quarter of each hidden layer) or ``"batch"`` normalisation, after
        each hidden layer.
    """

    widths: tuple[int, ...]
    kind: str
    seed: int
    flat: Floats = field(init=False)
    slope: Floats = field(init=False)
    running: list[list[Floats]] = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        pairs = list(zip(self.widths, (*self.widths[1:], 1), strict=True))
        scaled = 2 if self.kind == "batch" else 0
        sizes = [a * b + b + scaled * b for a, b in pairs[:-1]] + [pairs[-1][0] + 1]
        self.flat = np.zeros(sum(sizes), np.float32)
        self.slope = np.zeros_like(self.flat)
        self.layers = self.views(self.flat, pairs)
        self.slopes = self.views(self.slope, pairs)
        self.running = [[np.zeros(b, np.float32), np.ones(b, np.float32)] for b in self.widths[1:]]
        for (a, b), (weights, *rest) in zip(pairs, self.layers, strict=True):
            bound = np.sqrt(6 / (a + b))
            weights[:] = self.random.uniform(-bound, bound, (a, b))
            if len(rest) == 3:
                rest[1][:] = 1
        self.moments = np.zeros((2, self.flat.size), np.float32)
        self.steps = 0

    def views(self, flat: Floats, pairs: list[tuple[int, int]]) -> list[list[Floats]]:
        """Return weights, intercepts and, if layers are normalised, scales and shifts of each layer."""
        found, start = [], 0
        for place, (a, b) in enumerate(pairs):
            shapes: list[tuple[int, ...]] = [(a, b), (b,)]
            if self.kind == "batch" and place < len(pairs) - 1:
                shapes += [(b,), (b,)]
            layer = []
            for shape in shapes:
                size = int(np.prod(shape))
                layer.append(flat[start : start + size].reshape(shape))
                start += size
            found.append(layer)
        return found

    def logits(self, x: Floats, dropping: np.random.Generator | None = None) -> Floats:
        """Return the linear scores of rows, as judged, or with other units left out each time."""
        for (weights, intercept, *scale), (mean, variance) in zip(
            self.layers[:-1], self.running, strict=True
        ):
            x = np.maximum(x @ weights + intercept, 0)
            if scale:
                x = (x - mean) / np.sqrt(variance + EPSILON) * scale[0] + scale[1]
            if dropping is not None:
                x = x * (dropping.random(x.shape, np.float32) < KEPT) / np.float32(KEPT)
        weights, intercept = self.layers[-1]
        return (x @ weights + intercept)[:, 0]

    def learn(self, x: Floats, y: Floats) -> None:
        """Set the slopes to those of the mean log loss of a batch."""
        inputs, open_, kept = [x], [], []
        for (weights, intercept, *scale), running in zip(
            self.layers[:-1], self.running, strict=True
        ):
            hidden = np.maximum(inputs[-1] @ weights + intercept, 0)
            open_.append(hidden > 0)
            if scale:
                mean, variance = hidden.mean(0), hidden.var(0)
                for held, seen in zip(running, (mean, variance), strict=True):
                    held += (1 - MOMENTUM) * (seen - held)
                spread = 1 / np.sqrt(variance + EPSILON)
                normal = (hidden - mean) * spread
                kept.append((normal, spread))
                hidden = normal * scale[0] + scale[1]
            elif self.kind == "dropout":
                mask = (self.random.random(hidden.shape, np.float32) < KEPT) / np.float32(KEPT)
                kept.append(mask)
                hidden = hidden * mask
            inputs.append(hidden)
        weights, intercept = self.layers[-1]
        score = (inputs[-1] @ weights + intercept)[:, 0]
        away = ((0.5 * (1 + np.tanh(score / 2)) - y) / y.size)[:, None].astype(np.float32)
        for place in range(len(self.layers) - 1, -1, -1):
            slopes = self.slopes[place]
            np.matmul(inputs[place].T, away, out=slopes[0])
            slopes[1][:] = away.sum(0)
            if place == 0:
                return
            away = away @ self.layers[place][0].T
            if self.kind == "dropout":
                away = away * kept[place - 1]
            elif self.kind == "batch":
                away = self.through_normal(place - 1, away, *kept[place - 1])
            away = away * open_[place - 1]

    def through_normal(self, place: int, away: Floats, normal: Floats, spread: Floats) -> Floats:
        """Return the slopes before a normalisation from those after it."""
        np.einsum("ij,ij->j", away, normal, out=self.slopes[place][2])
        self.slopes[place][3][:] = away.sum(0)
        away = away * self.layers[place][2]
        shift = normal * (away * normal).mean(0)
        return spread * (away - away.mean(0) - shift)

    def step(self, rate: float) -> None:
        """Take one step of Adam."""
        self.steps += 1
        first, second = self.moments
        first += np.float32(0.1) * (self.slope - first)
        second += np.float32(0.001) * (self.slope * self.slope - second)
        size = rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        self.flat -= np.float32(size) * first / (np.sqrt(second) + np.float32(1e-7))


def train(
    network: Network,
    rows: tuple[Floats, NDArray[np.integer]],
    validation: tuple[Floats, NDArray[np.integer]],
    rate: float,
    epochs: int,
    last: bool = False,
) -> float:
    """Train a network, leave it as it was after its best epoch; return its AUC on validation then.

    With `last` it is left as it is after the last epoch.
    """
    x, y = rows[0], rows[1].astype(np.float32)
    best, kept = -1.0, network.flat.copy()
    held = [[part.copy() for part in pair] for pair in network.running]
    for _ in range(epochs):
        order = network.random.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            network.learn(x[chosen], y[chosen])
            network.step(rate)
        seen = auc(network.logits(validation[0]), validation[1])
        if seen > best:
            best, kept = seen, network.flat.copy()
            held = [[part.copy() for part in pair] for pair in network.running]
    if not last:
        network.flat[:] = kept
        network.running = held
    return best
