"""The page: the template filled with pieces written in Python, and with the data that its script shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from importlib.resources import files
from itertools import chain, islice
from string import Template
from typing import Any

import numpy as np

from treeproof.present.report import words
from treeproof.present.report.charts import curve_rows, curve_svg
from treeproof.present.report.content import Content
from treeproof.present.report.curves import Curve
from treeproof.present.report.instances import KINDS, Instances, kinds_of
from treeproof.present.report.planes import Planes, pack
from treeproof.results import sentences
from treeproof.results.attacker_words import attacker_on_model, columns_in_words
from treeproof.results.column_words import how_it_moves
from treeproof.results.markup import definitions, escape, long_table, number, table
from treeproof.results.measures import missing_in_words
from treeproof.results.verdicts import Bounds, in_percent
from treeproof.results.verification import Verification, class_table
from treeproof.threat.one_hot import ValidAround, bind_valid_epsilon
from treeproof.threat.relations.grouping import groups_of
from treeproof.threat.threat import Threat
from treeproof.verification.witnesses import moved_features
from treeproof.visible import visible

SHOWN_FEATURES, MAX_FEATURES, MAX_REACHES, MAX_CLASSES = 12, 200, 500, 100
INTERRUPTED = "The verification was interrupted; rows not decided by then are undecided."
MAX_CHARACTERS = 100_000
"""The most that is shown of the attacker's file."""


def page(content: Content) -> str:
    """The whole report as the text of one HTML file."""
    result = content.result
    return Template(_resource("template.html")).substitute(
        title=escape(content.title),
        style=_resource("style.css"),
        script=_resource("script.js"),
        data=_as_json(_data(content)),
        summary=escape(words.summary(result, content.instances.shown[0])),
        attacker=escape(attacker_on_model(content.attacker, content.ensemble, content.threat.relations, content.names)),
        interrupted=_warnings([INTERRUPTED] * result.interrupted),
        missing=_warnings([*result.assumptions, *_missing(result)]),
        measures="".join(_measures(result)),
        classes=_classes(result),
        claims=_claims(content),
        robustness_curve=_curve("Robustness", content.robustness, "robust", _at_any_reach(content)),
        resilience_curve=_curve("Resilience", content.resilience, "resilient"),
        features=_features(content),
        explained="" if content.explained is None else content.explained.section,
        slices=_slices_note(content),
        instances=_instances_note(content.instances, len(result)),
        kinds="".join(f'<option value="{i}">{escape(name)}</option>' for i, (_, name, _) in enumerate(KINDS)),
        legend=_legend(content.instances),
        record=definitions(content.record),
        reach=_reach(content),
        attacker_json=escape(_attacker_file(content)),
    )


def _resource(name: str) -> str:
    return files("treeproof.present.report").joinpath(name).read_text(encoding="utf-8")


def _as_json(data: Any) -> str:
    """JSON that cannot end the script element around it, whatever names and labels contain."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(content: Content) -> dict[str, Any]:
    """What the script shows: the table of instances and the slices."""
    instances, planes = content.instances, content.planes
    return {
        "names": {str(f): visible(content.names[f]) for f in sorted(_shown_features(content))},
        "kinds": [list(kind) for kind in KINDS],
        "labels": [visible(label) for label in instances.labels],
        "entries": _finite(instances.entries),
        "classes": [visible(label) for label in content.ensemble.classes.tolist()],
        "slices": None if planes is None else _slice_data(planes, content.result),
    }


def _shown_features(content: Content) -> set[int]:
    """The features that the table and the slices mention: a model may have many more."""
    moved = {change[0] for entry in content.instances.entries for change in chain(*entry[5:])}
    return moved | set(content.planes.features if content.planes is not None else ())


def _slice_data(planes: Planes, result: Verification) -> dict[str, Any]:
    kinds = kinds_of(result)
    return {
        "features": planes.features,
        "through": planes.through,
        "kinds": [KINDS[kinds[row]][1].lower() for row in planes.through],
        "at": _finite(result.X[planes.through][:, planes.features].tolist()),
        "start": planes.start,
        "points": planes.points,
        "cuts": {f"{k}/{f}/{g}": pack(cut) for (k, f, g), cut in planes.slices.items()},
    }


def _finite(value: Any) -> Any:
    """The value with null for NaN, which JSON does not have."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and value != value else value


def _warnings(said: Iterable[str]) -> str:
    """Sentences that no reader should miss."""
    return "".join(f'<p class="warning">{escape(one)}</p>' for one in said)


def _missing(result: Verification) -> list[str]:
    """What was assumed about missing values, where there are any that the attacker could touch."""
    n = result.rows_with_missing
    return [f"{missing_in_words(n, len(result))}."] if n else []


def _measures(result: Verification) -> list[str]:
    right, robust, n = Bounds(result.accuracy, result.accuracy), result.robustness, len(result)
    cards = [_card("accuracy", "Accuracy", right, n, sentences.SHARE_RIGHT, "Counted.")]
    cards.append(_card("robust", "Robustness", robust, n, sentences.SHARE_ROBUST, words.decided(robust)))
    for name, outcomes in zip(result.names_of_epsilons, result.resilience_by_epsilon, strict=True):
        share, title = Bounds.of(outcomes), f"Resilience, {name}"
        cards.append(_card("resilient", title, share, n, sentences.SHARE_RESILIENT, words.decided(share)))
    return cards


def _card(kind: str, name: str, bounds: Bounds, n: int, meaning: str, proof: str) -> str:
    low, high = round(bounds.lower * n) if n else 0, round(bounds.upper * n) if n else 0
    count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    bar = (
        f'<div class="bar" aria-hidden="true"><i class="may" style="width:{100 * bounds.upper:.2f}%"></i>'
        f'<i style="width:{100 * bounds.lower:.2f}%"></i></div>'
        if n
        else ""
    )
    return (
        f'<article class="card {kind}"><h3>{escape(name)}</h3><p class="value">{escape(in_percent(bounds))}</p>{bar}'
        f'<p>{count} of {n:,} {escape(meaning)}</p><p class="proof">{escape(proof)}</p></article>'
    )


def _classes(result: Verification) -> str:
    """The measures of each class, where there are several: a model can be safe for one and not for another."""
    if len(result.by_class) < 2:
        return ""
    head, lines = class_table(result.by_class, result.names_of_epsilons)
    rest = f"<p>… and {len(lines) - MAX_CLASSES:,} more classes.</p>" if len(lines) > MAX_CLASSES else ""
    return (
        '<h3 id="h-classes">By true class</h3><div class="scroll classes" tabindex="0" role="region" '
        f'aria-labelledby="h-classes">{table(head, lines[:MAX_CLASSES])}</div>{rest}'
    )


def _claims(content: Content) -> str:
    """What is proved and what is not, item by item."""
    result = content.result
    witnesses = int(result.has_witness.sum())
    others = "" if content.threat.blanks else " (also not about those who fill missing cells or blank others)"
    items = [
        f"<b>Proved</b> means {sentences.PROVED}.",
        f"<b>Broken</b>, or fragile, means that {sentences.REFUTED.format(witnesses=witnesses)}.",
        f"<b>Undecided</b> means that {sentences.UNDECIDED}. Undecided rows count as neither: measures are then given "
        "as a range that certainly contains the true value.",
        "<b>Not claimed</b>: anything about rows that are not in this test set, about attackers who can do more"
        f"{others}, or about what happens to the data before it reaches the model.",
    ]
    return "".join(f"<li>{item}</li>" for item in items)


def _at_any_reach(content: Content) -> str:
    """Which columns do not take part in scaling the attacker's reach."""
    threat, names = content.threat, list(content.names)
    own = {f for f, moves in threat.columns if moves.interval is None or not np.isfinite(moves.interval).any()}
    free = [f for f in np.flatnonzero(np.isinf(threat.low) & np.isinf(threat.high)).tolist() if f not in own]
    for group in groups_of(threat.relations, content.ensemble):
        if group.features[0] in free:  # the attacker names it: it is one column
            free = [f for f in free if f not in group.features] + [len(names)]
            names.append(visible(group.name))
    said = f" Whatever the reach, {columns_in_words(free, names)} may take any value." if free else ""
    return said + (f" Changes of {columns_in_words(sorted(own), names)} are the same at every reach." if own else "")


def _curve(name: str, curve: Curve | str, kind: str, besides: str = "") -> str:
    if isinstance(curve, str):
        return f'<figure class="{kind}"><h3>{name}</h3><p class="left-out">Left out. {escape(curve)}</p></figure>'
    numbers = table([curve.axis, f"{kind} share"], curve_rows(curve))
    level = "at each ε" if kind == "resilient" else "at each reach"
    return (
        f'<figure class="{kind}"><figcaption><h3>{name} {level}</h3></figcaption>{curve_svg(curve, name)}'
        f'<p class="note">{escape(_how_exact(curve) + besides)}</p>'
        f"<details><summary>In numbers</summary>{numbers}</details></figure>"
    )


def _how_exact(curve: Curve) -> str:
    parts = []
    if curve.rows < curve.of_rows:
        error = 0.98 / curve.rows**0.5
        parts.append(
            f"Computed on {curve.rows:,} of {curve.of_rows:,} rows, drawn at random: the shares of all rows may differ "
            f"by about {100 * error:.0f} percentage points."
        )
    near = curve.rows - curve.exact_rows - curve.open_rows
    if curve.exact_rows == curve.rows:
        parts.append(
            "Exact steps: the level at which each row breaks is proved from both sides, or that it holds to the end."
        )
    else:
        parts.append(f"{curve.exact_rows:,} of {curve.rows:,} rows break at an exact level, or hold to the end")
        if near:
            parts[-1] += f"; {near:,} at a level known to within {number(curve.gap)}"
        if curve.open_rows:
            parts[-1] += f"; for {curve.open_rows:,} the level was not found in time"
        parts[-1] += ". The true curve lies in the band."
    return " ".join(parts)


def _features(content: Content) -> str:
    moved = moved_features(content.result)[:MAX_FEATURES]
    n = int(content.result.has_witness.sum())
    if not moved:
        return "<p>No counterexample was found, so there are no moves to show.</p>"
    rows = [_feature_row(content, one, n) for one in moved]
    head = (
        '<th scope="col">Feature</th><th scope="col">Counterexamples that move it</th>'
        '<th scope="col" class="n">Typical move</th><th scope="col" class="n">Largest move</th>'
        '<th scope="col" class="n">Attacker’s reach</th>'
    )
    return long_table("moved", head, rows, SHOWN_FEATURES, "more")


def _feature_row(content: Content, one: Any, n: int) -> str:
    f = one.feature
    reach = escape(_reach_of(content, f))
    typical, largest, ways = escape(one.most_often), "", ""
    moves = {"other": one.count}
    if not one.most_often:
        typical, largest = number(one.median), number(one.largest)
        moves = {"up": one.up, "down": one.count - one.up}
        ways = f" ({', '.join(f'{k} {arrow}' for k, arrow in zip(moves.values(), '↑↓', strict=True) if k)})"
    bar = "".join(f'<i class="{kind}" style="width:{100 * k / n:.2f}%"></i>' for kind, k in moves.items())
    return (
        f'<tr><th scope="row">{escape(content.names[f])}</th><td><span class="stack" aria-hidden="true">{bar}</span>'
        f'<span class="count">{one.count} of {n}{ways}</span></td>'
        f'<td class="n">{typical}</td><td class="n">{largest}</td><td class="n">{reach}</td></tr>'
    )


def _reach_of(content: Content, f: int) -> str:
    """What the attacker may do to a column, in a few words."""
    threat = content.threat
    moves = dict(threat.columns).get(f)
    if moves is not None:
        return how_it_moves(moves, dict(content.ensemble.categories).get(f)) or "missing or not"
    low, high = float(threat.low[f]), float(threat.high[f])
    if low == -high:
        return "any value" if math.isinf(high) else f"± {number(high)}"
    return f"{number(low)} to {number(high)}"


def _slices_note(content: Content) -> str:
    planes = content.planes
    if planes is None or not planes.slices:
        if content.result.relations:
            return "Left out: rows keep relations, and those of a plane do not."
        return "Left out: there was no time, or there were fewer than two columns to show (numbers without a step)."
    note = (
        "Each picture is a plane through one row of the test set: two features vary, the others stay as in that row. "
        f"It has {_range([cut.resolution for cut in planes.slices.values()])} squares per side. A plain square is "
        "proved stable at every point in it; a hatched one contains a point where an attack (on any feature, not only "
        "these two) flips the label. The colour is the label at the square’s centre. "
    )
    n = len(content.result)
    shown = "All rows of the test set are"
    if len(planes.points) < n:
        shown = f"{len(planes.points):,} of {n:,} rows, with unsafe ones over-represented, are"
    note += (
        f"{shown} drawn where their values of these two features are. Their other features differ, so their own "
        "verdict may differ from that of the square under them."
    )
    if planes.missing:
        note += f" {planes.missing} more slices were left out because time ran out."
    return note


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _instances_note(instances: Instances, n: int) -> str:
    shown = sum(instances.shown)
    if shown == n:
        return f"All {n:,} rows of the test set."
    unsafe = [i for i, (key, _, _) in enumerate(KINDS) if key not in ("robust", "resilient")]
    missing = [
        f"{instances.counts[i] - instances.shown[i]:,} {KINDS[i][1].lower()}"
        for i in unsafe
        if instances.counts[i] > instances.shown[i]
    ]
    note = f"{shown:,} of {n:,} rows, broken ones first: the page has no more, to stay small. "
    if missing:
        return note + f"Unsafe rows not shown: {', '.join(missing)}. The result’s JSON or CSV file has them all."
    return note + "Every unsafe row is among them; the rest are in the result’s JSON or CSV file."


def _legend(instances: Instances) -> str:
    """The kinds of rows, with the number of each."""
    return "".join(
        f'<div><dt><span class="badge {key}">{escape(name)}</span></dt>'
        f"<dd><b>{count:,}</b> {escape(meaning)}</dd></div>"
        for (key, name, meaning), count in zip(KINDS, instances.counts, strict=True)
        if count
    )


def _reach(content: Content) -> str:
    """The attacker and the neighbourhoods, feature by feature."""
    threat, result = content.threat, content.result
    around = [bind_valid_epsilon(one, content.ensemble, threat.relations) for one in result.epsilons]
    sizes = [one.sizes for one in around]
    some = np.flatnonzero((threat.low != 0) | (threat.high != 0) | np.any([one > 0 for one in sizes], axis=0))
    rows = [
        (content.names[f], *_move(threat, f), *(_near(one, f) for one in around))
        for f in islice(some.tolist(), MAX_REACHES)
    ]
    if not rows:
        return "<p>No feature can be touched.</p>"
    rest = f"<p>… and {len(some) - len(rows):,} more.</p>" if len(rows) < len(some) else ""
    return table(["feature", "lowest move", "highest move", "cost", *result.names_of_epsilons], rows) + rest


def _near(around: ValidAround, f: int) -> str:
    """How far neighbours may be away in a feature; of values that stand for each other, the name of ε says more."""
    is_set = f in dict(around.alike) or any(f in group.features for group, _ in around.groups)
    return "values" if is_set else number(float(around.sizes[f]))


def _attacker_file(content: Content) -> str:
    text = content.attacker.to_json()
    return text if len(text) <= MAX_CHARACTERS else f"too long to show: {len(text):,} characters"


def _move(threat: Threat, f: int) -> tuple[str, str, str]:
    """The lowest and highest move of a feature, and what it costs."""
    low, high = float(threat.low[f]), float(threat.high[f])
    if low == high == 0:
        return "–", "–", "–"
    cost = f"{threat.cost[f]}{', above the budget' * bool(threat.cost[f] > threat.budget)}"
    return number(low), number(high), cost if threat.power is None else "distance"
