"""Curves as SVG, drawn in Python so that they need no scripts; colours come from the page's style."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from treeproof.numbers.doubles import FloatArray
from treeproof.present.report.curves import Curve
from treeproof.results.markup import escape, number, percent
from treeproof.results.verdicts import Bounds, in_percent

WIDTH, HEIGHT = 520, 280
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 46


@dataclass(frozen=True)
class _Frame:
    """Where levels and shares are in the picture."""

    end: float
    floor: float
    """The share at the bottom."""

    def x(self, level: float) -> float:
        return round(LEFT + min(level / self.end, 1.0) * (WIDTH - LEFT - RIGHT), 2)

    def y(self, share: float) -> float:
        return round(HEIGHT - BOTTOM - (share - self.floor) / (1 - self.floor) * (HEIGHT - TOP - BOTTOM), 2)

    def steps(self, curve: Curve, shares: FloatArray) -> list[tuple[float, float]]:
        """The corners of a step function."""
        points: list[tuple[float, float]] = []
        ends = np.append(curve.levels[1:], curve.end)
        for level, end, share in zip(curve.levels.tolist(), ends.tolist(), shares.tolist(), strict=True):
            points += [(self.x(level), self.y(share)), (self.x(end), self.y(share))]
        return points


def curve_svg(curve: Curve, name: str) -> str:
    """The curve with axes, the level that was verified, and the band of what is not known."""
    frame = _Frame(curve.end, _floor(float(curve.lower.min())))
    lower, upper = frame.steps(curve, curve.lower), frame.steps(curve, curve.upper)
    parts = [
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(_spoken(curve, name))}">',
        *_axes(curve, frame),
    ]
    if curve.exact_rows < curve.rows:
        parts.append(f'<path class="band" d="{_line([*upper, *reversed(lower)])}Z"/>')
        parts.append(f'<path class="edge" d="{_line(upper)}"/>')
    x, share = frame.x(curve.asked), curve.at(curve.asked)[0]
    # The share in a sample is not the one verified on all rows.
    said = "as verified" if curve.rows == curve.of_rows else "in the sample"
    parts.append(f'<path class="line" d="{_line(lower)}"/>')
    parts.append(f'<path class="asked" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>')
    parts.append(f'<circle class="dot" cx="{x}" cy="{frame.y(share)}" r="4"/>')
    words = f"{said}: {in_percent(Bounds(*curve.at(curve.asked)))}"
    parts.append(f'<text class="name" x="{x + 7}" y="{TOP + 10}">{escape(words)}</text>')
    return "".join([*parts, "</svg>"])


def curve_rows(curve: Curve, steps: int = 16) -> list[tuple[str, str]]:
    """The curve in numbers: levels and shares."""
    levels = np.linspace(0, curve.end, steps + 1)[:-1].tolist()
    return [(number(level), in_percent(Bounds(*curve.at(level)))) for level in levels]


def _line(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a} {b}" for (a, b), _ in groupby(points))


def _floor(least: float) -> float:
    """Where the share axis starts: at 0, unless the whole curve is high up."""
    return 0.0 if least < 0.55 else math.floor((least - 0.05) * 10) / 10


def _axes(curve: Curve, frame: _Frame) -> list[str]:
    parts = []
    for share in np.arange(round(frame.floor * 10), 11, 1 if frame.floor >= 0.5 else 2) / 10:
        y = frame.y(share)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{100 * share:.0f} %</text>')
    step = _nice_step(curve.end / 5)
    for k in range(int(curve.end / step * (1 + 1e-9)) + 1):
        x = frame.x(k * step)
        anchor = "middle" if x < WIDTH - 30 else "end"
        y = HEIGHT - BOTTOM + 18
        parts.append(f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{number(k * step)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(curve.axis)}</text>')
    return parts


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= rough * (1 - 1e-9))


def _spoken(curve: Curve, name: str) -> str:
    return (
        f"{name} against {curve.axis}: {percent(curve.at(0.0)[0])} at 0, {percent(curve.at(curve.asked)[0])} at "
        f"{number(curve.asked)}, {percent(float(curve.lower[-1]))} at {number(curve.end)}"
    )
