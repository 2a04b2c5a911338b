"""Plots of results with matplotlib, the same as in the report; every function draws on `ax`, or on a new figure.

matplotlib is imported when something is drawn: `pip install treeproof[plots]`.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, warn_renamed
from treeproof.importers import as_ensemble
from treeproof.model.columns import as_doubles
from treeproof.present.slices import cut_slice, frame_of, plane_of
from treeproof.results.asked import Asked, ColumnName, OneOf, Range, Unit
from treeproof.results.explanation_words import column_in_words, conditions_in_words, value_in_words
from treeproof.results.explanations import NAMES, Explanation, Explanations
from treeproof.results.protection import Protection
from treeproof.results.verdicts import Bounds, Outcome
from treeproof.results.verification import Verification, names_of
from treeproof.threat.attacker import Attacker
from treeproof.verification.radii.radii import ResilienceCurve
from treeproof.verification.witnesses import moved_features as _moved_features

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
"""Okabe and Ito's colours, which colour-blind readers can tell apart; one per class, starting over after the last."""


LEAST_LETTERS = 5
"""Names of which not even so many letters have room in a picture are left out."""

LETTER = 0.62
"""How wide letters are, as a share of the size of their font: a little more than most."""

SMALL, SMALLER = 8.3, 6.9
"""Sizes of letters in points: what is said of a column, and the names of values."""


def measures(result: Verification, *, ax: Any = None) -> Any:
    """Draws accuracy, robustness and resilience as bars; what is undecided is pale."""
    ax = _axes(ax)
    shares = [("accuracy", result.accuracy, result.accuracy), ("robustness", *_ends(result.robustness))]
    for epsilon, outcomes in zip(result.epsilons, result.resilience_by_epsilon, strict=True):
        shares.append((f"resilience, ε = {_short(epsilon)}", *_ends(Bounds.of(outcomes))))
    places = np.arange(len(shares))
    lower = np.array([low for _, low, _ in shares])
    upper = np.array([high for _, _, high in shares])
    ax.barh(places, upper, color=HUES[0], alpha=0.35)
    ax.barh(places, lower, color=HUES[0])
    for place, low, high in zip(places, lower, upper, strict=True):
        ax.text(low + 0.01, place, f"{low:.1%}" if low == high else f"{low:.1%} to {high:.1%}", va="center")
    ax.set_yticks(places, [name for name, _, _ in shares])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.15), xlabel="share of rows")
    return ax


def resilience_against_epsilon(curve: ResilienceCurve, *, ax: Any = None) -> Any:
    """Draws certified resilience over ε, as `tp.resilience_curve` finds it: exact steps.

    Where the curve has a unit, the axis is its multiples and says so.
    """
    ax = _axes(ax)
    _steps(ax, curve.epsilons, curve.resilience)
    across = "ε" if curve.unit == 1.0 else f"multiple of {_plain(names_of((curve.unit,), None)[0])}"
    _title(ax, across, "resilient share of rows", curve.undecided)
    return ax


def resilience_curve(curve: ResilienceCurve, *, ax: Any = None) -> Any:
    """Does the same as `resilience_against_epsilon`, under its old name."""
    warn_renamed("plots.resilience_curve", "plots.resilience_against_epsilon")
    return resilience_against_epsilon(curve, ax=ax)


def robustness_against_reach(radii: npt.ArrayLike, *, unit: float = 1.0, ax: Any = None) -> Any:
    """Draws robustness over the scale of the attacker's reach, from what `tp.robustness_radius` returns: exact steps.

    `unit` is what scale 1 stands for on the axis: δ, if the attacker was `Attacker.linf(δ)`. Rows that were not decided
    count as broken, and the title says how many there are.
    """
    ax = _axes(ax)
    radius = np.asarray(radii, dtype=np.float64)
    if radius.ndim != 1 or not len(radius):
        raise InvalidInput("radii must be a list with one number per row, as robustness_radius returns it")
    levels = np.unique(np.concatenate(([0.0], radius[np.isfinite(radius)])))
    _steps(ax, levels * unit, np.array([(radius > level).mean() for level in levels]))
    _title(ax, "δ" if unit != 1.0 else "scale of the attacker's reach", "robust share", int(np.isnan(radius).sum()))
    return ax


def moved_features(result: Verification, *, top: int = 12, ax: Any = None) -> Any:
    """Draws how many counterexamples move each feature, and whether up or down; the `top` most moved ones."""
    ax = _axes(ax)
    moved = _moved_features(result)[:top]
    names = result.feature_names or tuple(f"feature {f}" for f in range(result.X.shape[1]))
    places = np.arange(len(moved))
    ups = np.array([one.up for one in moved])
    downs = np.array([0 if one.most_often else one.count - one.up for one in moved])
    ax.barh(places, ups, color=HUES[0], label="raised")
    ax.barh(places, downs, left=ups, color=HUES[1], label="lowered")
    if any(one.most_often for one in moved):
        changed = [one.count if one.most_often else 0 for one in moved]
        ax.barh(places, changed, color=HUES[2], label="another value")
    ax.set_yticks(places, [_plain(names[one.feature]) for one in moved])
    ax.invert_yaxis()
    ax.set(xlabel=f"counterexamples that move it, of {int(result.has_witness.sum())}")
    if moved:
        ax.legend()
    return ax


def columns_in_reasons(explanations: Explanations, *, top: int = 12, ax: Any = None) -> Any:
    """Draws how many rows have each column in their explanation; the `top` most common ones."""
    ax = _axes(ax)
    counts = list(explanations.counts.items())[:top]
    places = np.arange(len(counts))
    ax.barh(places, [n for _, n in counts], color=HUES[0])
    ax.set_yticks(places, [_plain(column_in_words(name)) for name, _ in counts])
    ax.invert_yaxis()
    ax.set(xlim=(0, max(len(explanations), 1)))
    ax.set(xlabel=f"{NAMES[explanations.kind][1]} with this column, of {len(explanations)}")
    return ax


def reason(explanation: Explanation, data: Any = None, *, ax: Any = None) -> Any:
    """Draws what a row's reason says about each of its columns: what is enough, dark, within all that there is, pale.

    Numbers lie between the ends of the domain; where there are none, between the ends of `data`, rows like those that
    were explained, or of these rows themselves. The dot is the row's own value. Names that have no room are left out.
    """
    if not isinstance(explanation, Explanation):
        raise InvalidInput(f"one explanation is drawn, not {type(explanation).__name__}; pick one, as in reasons[0]")
    if explanation.about.kind == "contrastive":
        raise InvalidInput("a contrastive set has no ranges to draw; see its .changes")
    n = len(explanation.columns)
    ax = _axes(ax, height=1.0 + 0.75 * n)
    ax.set(xlim=(-0.02, 1.02), ylim=(n - 0.5, -0.7), xticks=[], yticks=[], xlabel="all that there is")
    asked, said = explanation.about, conditions_in_words(explanation)
    for place, name in enumerate(explanation.columns):
        unit, allowed, own = asked.unit[name], explanation.ranges[name], asked.value(explanation.row, name)
        _say_above(ax, place, said[place])
        if isinstance(allowed, Range):
            _number_bar(ax, place, allowed, _span(asked, unit.features[0], allowed, data), own)
        else:
            _value_bar(ax, place, allowed, unit, own)
    ax.set_title(_plain(f"row {explanation.index}: {explanation.label}"), fontsize="small")
    return ax


def share_against_protection(protection: Protection, *, ax: Any = None) -> Any:
    """Draws the share of rows that hold against columns protected, one after another; what is undecided is pale."""
    ax = _axes(ax)
    places, before, names = np.arange(len(protection.curve)), set[ColumnName](), []
    for at in protection.curve:
        names.append(", ".join(column_in_words(name) for name in at.columns if name not in before))
        before = set(at.columns)
    lower, upper = (np.array([getattr(at.share, end) for at in protection.curve]) for end in ("lower", "upper"))
    ax.fill_between(places, lower, upper, color=HUES[0], alpha=0.35)
    ax.plot(places, lower, "o-", color=HUES[0])
    ax.axhline(protection.goal, color="black", linestyle="--", linewidth=1)
    labels = ["nothing" if not name else _plain(f"+ {name}") for name in names]
    ax.set_xticks(places, labels, rotation=30, ha="right")
    ax.set(ylim=(0, 1.02), xlabel="protected", ylabel=f"{protection.holds} share of rows")
    return ax


def _span(asked: Asked, f: int, allowed: Range, data: Any) -> tuple[float, float]:
    """The ends of a column's domain; where there is none, those of what is known of its values."""
    if data is None:
        column = asked.X[:, f]
    else:
        column = as_doubles(data.iloc[:, f] if hasattr(data, "iloc") else np.asarray(data)[:, f], str(f))
    known = np.concatenate((column, allowed, asked.X[:, f]))
    known = known[np.isfinite(known)]
    low, high = asked.domain[f]
    least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return (least if np.isinf(low) else low), (most if np.isinf(high) else high)


def _number_bar(ax: Any, place: int, allowed: Range, span: tuple[float, float], own: float) -> None:
    """A range of numbers within all of them, drawn from 0 to 1."""
    low, high = span
    size = high - low or 1.0

    def at(number: float) -> float:
        return float(np.clip((number - low) / size, 0.0, 1.0))

    ax.barh(place, 1.0, color=HUES[0], alpha=0.15, height=BAR)
    if not np.isnan(own):
        ax.barh(place, at(allowed.high) - at(allowed.low), left=at(allowed.low), color=HUES[0], height=BAR)
        ax.plot(at(own), place, "o", color="black", markersize=5)
    for end, where, side in ((low, 0.0, "left"), (high, 1.0, "right")):
        _say_below(ax, where, place, f"{end:,.6g}", side)


def _value_bar(ax: Any, place: int, allowed: OneOf, unit: Unit, own: Any) -> None:
    """The values of a category side by side, those that are enough dark."""
    known = () if unit.category is None else unit.category.values
    shown = [*known, *(value for value in allowed if value not in known)]
    letters = _letters(ax, SMALLER, 1.0 / len(shown))
    for k, value in enumerate(shown):
        tone, middle = 1.0 if value in allowed else 0.15, (k + 0.48) / len(shown)
        ax.barh(place, 0.96 / len(shown), left=k / len(shown), color=HUES[0], alpha=tone, height=BAR)
        if value == own:
            ax.plot(middle, place, "o", color="black", markersize=5)
        if letters >= LEAST_LETTERS:
            said = value_in_words(value)
            _say_below(ax, middle, place, said if len(said) <= letters else f"{said[: letters - 1]}…", "center")


BAR = 0.3
"""How thick bars are, of 1 from one to the next."""


def _say_above(ax: Any, place: int, text: str) -> None:
    """What is said of a column, on two lines at most, or one if there is no room."""
    most = 2 if _room(ax) >= 4.5 * SMALL else 1
    lines = wrap(text, max(_letters(ax, SMALL), LEAST_LETTERS), max_lines=most, placeholder=" …")
    ax.text(0.0, place - 0.2, _plain("\n".join(lines)), ha="left", va="bottom", fontsize=SMALL)


def _say_below(ax: Any, where: float, place: int, text: str, side: str) -> None:
    """The name of a value, if there is room."""
    if _room(ax) >= 4 * SMALLER:
        ax.text(where, place + 0.18, _plain(text), ha=side, va="top", fontsize=SMALLER)


def _letters(ax: Any, size: float, share: float = 1.0) -> int:
    """How many letters of a size in points have room in this share of the width."""
    width = ax.get_window_extent().width * 72 / ax.figure.dpi
    return int(share * width / (LETTER * size))


def _room(ax: Any) -> float:
    """The points from one bar to the next."""
    bottom, top = ax.get_ylim()
    return float(ax.get_window_extent().height * 72 / ax.figure.dpi / (bottom - top))


def slice(
    model: Any,
    attacker: Attacker,
    X: npt.ArrayLike,
    features: tuple[int | str, int | str],
    *,
    row: int = 0,
    y: npt.ArrayLike | None = None,
    resolution: int = 64,
    max_seconds: float | None = None,
    n_jobs: int | None = None,
    voting: Any = None,
    ax: Any = None,
) -> Any:
    """Draws the plane through row number `row` of X in which two features vary: labels, and where they are stable.

    A plain square is proved stable at all of its points; a hatched one contains a point that an attack breaks; a dotted
    one was not decided. The line is the decision boundary. The rows of X are drawn where their values of the two
    features are, whatever their other values; given their labels `y`, in the colours of those.
    One parameter per choice that users have.
    """
    ensemble = as_ensemble(model, voting=voting).named_after(X)
    rows = ensemble.check_rows(X)
    if not 0 <= row < len(rows):
        raise InvalidInput(f"row {row} is not one of the {len(rows)} rows of X")
    first, second = plane_of(ensemble, features)
    frames = [frame_of(ensemble, attacker, rows, f) for f in (first, second)]
    if frames[0] is None or frames[1] is None:
        raise InvalidInput("a feature without values, with a step, or whose domain is one value, has no slice")
    (low_1, high_1), (low_2, high_2) = frames[0], frames[1]
    cut = cut_slice(
        ensemble,
        attacker,
        rows[row],
        (first, second),
        (low_1, low_2),
        (high_1, high_2),
        resolution=resolution,
        max_seconds=max_seconds,
        n_jobs=n_jobs,
    )
    ax = _axes(ax)
    _regions(ax, cut.labels, cut.status, (low_1, high_1, low_2, high_2), ensemble.n_classes)
    hues = "#333333" if y is None else [HUES[k % len(HUES)] for k in ensemble.class_index(y)]
    ax.scatter(rows[:, first], rows[:, second], s=14, c=hues, edgecolors="white", linewidths=0.5, zorder=3)
    ax.scatter(rows[row, first], rows[row, second], s=120, facecolors="none", edgecolors="black", zorder=4)
    names = ensemble.feature_names or tuple(f"feature {f}" for f in range(ensemble.n_features))
    ax.set(xlabel=_plain(names[first]), ylabel=_plain(names[second]), xlim=(low_1, high_1), ylim=(low_2, high_2))
    _legend(ax, [ensemble.classes[k] for k in np.unique(cut.labels)], np.unique(cut.labels), cut.status)
    return ax


def _legend(ax: Any, labels: list[Any], classes: Any, status: Any) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=HUES[k % len(HUES)], alpha=0.35, label=_plain(f"label {label}"))
        for k, label in zip(classes, labels, strict=True)
    ]
    for outcome, hatch, meaning in ((Outcome.REFUTED, "////", "an attack breaks it"), (Outcome.UNKNOWN, "..", "open")):
        if (status == outcome).any():
            handles.append(Patch(facecolor="none", edgecolor="#00000090", hatch=hatch, label=meaning))
    ax.legend(handles=handles, fontsize="small", loc="best")


def _regions(ax: Any, labels: Any, status: Any, extent: tuple[float, float, float, float], n_classes: int) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    hues = ListedColormap([HUES[k % len(HUES)] for k in range(n_classes)])
    ax.imshow(
        labels, origin="lower", extent=extent, aspect="auto", cmap=hues, vmin=-0.5, vmax=n_classes - 0.5, alpha=0.35
    )
    n = len(labels)
    xs, ys = np.linspace(*extent[:2], n + 1), np.linspace(*extent[2:], n + 1)
    for outcome, hatch in ((Outcome.REFUTED, "////"), (Outcome.UNKNOWN, "..")):
        _hatch(ax, status == outcome, xs, ys, hatch)
    # Between squares with different labels: trees have no slanted boundaries.
    upright = [[(xs[j + 1], ys[i]), (xs[j + 1], ys[i + 1])] for i, j in np.argwhere(labels[:, 1:] != labels[:, :-1])]
    level = [[(xs[j], ys[i + 1]), (xs[j + 1], ys[i + 1])] for i, j in np.argwhere(labels[1:] != labels[:-1])]
    ax.add_collection(LineCollection(upright + level, colors="black", linewidths=1))


def _hatch(ax: Any, there: Any, xs: Any, ys: Any, hatch: str) -> None:
    """Hatches exactly the squares where `there` is true: one outline per run along each line, in one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    boxes = []
    for i, line in enumerate(there):
        ends = np.flatnonzero(np.diff(np.concatenate(([False], line, [False])).astype(np.int8)))
        boxes += [((xs[a], ys[i]), (xs[b], ys[i + 1])) for a, b in zip(ends[::2], ends[1::2], strict=True)]
    if boxes:
        corners = [[(x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1)] for (x1, y1), (x2, y2) in boxes]
        path = Path.make_compound_path(*(Path(corner, closed=True) for corner in corners))
        ax.add_patch(PathPatch(path, facecolor="none", edgecolor="#00000090", hatch=hatch, linewidth=0))


def _steps(ax: Any, levels: Any, shares: Any) -> None:
    end = levels[-1] * 1.05 if levels[-1] > 0 else 1.0
    ax.step([*levels, end], [*shares, shares[-1]], where="post", color=HUES[0])
    ax.set(xlim=(0, end), ylim=(0, 1.02))


def _title(ax: Any, across: str, up: str, undecided: int) -> None:
    ax.set(xlabel=across, ylabel=up)
    if undecided:
        ax.set_title(f"{undecided} rows undecided, counted as broken", fontsize="small")


def _ends(bounds: Bounds) -> tuple[float, float]:
    return bounds.lower, bounds.upper


def _short(epsilon: Any) -> str:
    return f"{epsilon:g}" if isinstance(epsilon, (int, float)) else "per feature"


def _plain(name: str) -> str:
    """A name, shown as it is: matplotlib takes text between dollar signs for mathematics."""
    return name.replace("$", r"\$")


def _axes(ax: Any, *, height: float | None = None) -> Any:
    """These axes, or new ones, of this height in inches if it is given."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InvalidInput("plots need matplotlib; pip install 'treeproof[plots]'") from None
    size = None if height is None else (pyplot.rcParams["figure.figsize"][0], height)
    return pyplot.subplots(layout="constrained", figsize=size)[1]
