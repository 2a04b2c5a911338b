"""The cheapest L1 attack under relations, against treecf's exact search: one kind of constraint after the other.

`python -m benchmarks.cheapest --relations` runs it. Both get the same XGBoost model, the same rows and the same
constraints, each in its own words, one after the other in the same run. Reading the model is not counted on either
side, and treecf has `SECONDS` a row. Distances are in units of a column's range, and 1 for one-hot columns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import treeproof as tp

DATA = Path(os.environ.get("TREEPROOF_DATA", "../shared/data"))
SIZES = ((30, 3), (100, 4), (100, 6))
"""Trees, and their depth."""
SECONDS = 20.0
"""What treecf has for a row."""
CLOSE = 1e-5
"""The share by which prices may differ: behind a threshold treecf tries the next float32, we the next double."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows for training and for questions."""

    X: pd.DataFrame
    y: np.ndarray
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Its one-hot groups."""

    @property
    def units(self) -> dict[str, float]:
        """What distances are divided by."""
        return {c: float(self.X[c].max() - self.X[c].min()) for c in self.X}


@cache
def breast_cancer() -> Table:
    """30 columns: the mean, the error and the worst of ten measures."""
    data = load_breast_cancer(as_frame=True)
    return Table(data.data.rename(columns=lambda name: name.replace(" ", "_")), data.target.to_numpy())


@cache
def diabetes() -> Table:
    """8 columns, decimals with few digits, and the total of three of them."""
    X = pd.read_csv(DATA / "diabetes.csv").rename(columns={"DiabetesPedigreeFunction": "Pedigree"}).astype(float)
    y = X.pop("Outcome").to_numpy().astype(int)
    X["Total"] = X.Glucose + X.BloodPressure + X.SkinThickness
    return Table(X, y)


@cache
def german() -> Table:
    """German credit: 13 one-hot groups and 7 columns of whole numbers."""
    frame = pd.read_csv(DATA / "german_credit.csv")
    return _one_hot(frame.drop(columns="label"), (frame.label == 1).to_numpy().astype(int))


@cache
def adult() -> Table:
    """The first 8,000 rows of adult without missing values: 7 one-hot groups and 5 columns of whole numbers."""
    frame = pd.read_csv(DATA / "adult.csv.xz").replace("?", None).dropna().head(8000)
    y = frame.income.str.startswith(">").to_numpy().astype(int)
    return _one_hot(frame.drop(columns=["income", "fnlwgt", "native-country"]), y)


def _one_hot(frame: pd.DataFrame, y: np.ndarray) -> Table:
    texts = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    X = pd.get_dummies(frame, columns=texts, prefix_sep=".", dtype=float).astype(float)
    groups = {text: [column for column in X if column.startswith(f"{text}.")] for text in texts}
    return Table(X, y, groups)


@dataclass(frozen=True, eq=False)
class Said:
    """What a question says about columns, in nobody's words."""

    frozen: tuple[str, ...] = ()
    moves: dict[str, int] = field(default_factory=dict)
    """Columns that only rise (1) or only fall (-1)."""
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    implies: tuple[tuple[str, str], ...] = ()
    """Where the first column is 1, the second is 1."""
    orders: tuple[tuple[str, str], ...] = ()
    """The first column is at most the second."""
    sums: tuple[tuple[dict[str, float], str, float], ...] = ()
    """Factors of columns, an operator, a number."""

    def to_treecf(self) -> dict[str, Any]:
        """As constraints and value policies."""
        import treecf

        sums = [(dict(zip(pair, (1.0, -1.0), strict=True)), "<=", 0.0) for pair in self.orders] + list(self.sums)
        directions = {1: "increase", -1: "decrease"}
        constraints = [
            *(treecf.Freeze(c) for c in self.frozen),
            *(treecf.Monotone(c, directions[sign]) for c, sign in self.moves.items()),
            *(treecf.Range(c, *ends) for c, ends in self.ranges.items()),
            *(treecf.OneHot(tuple(members)) for members in self.groups.values()),
            *(treecf.Implies(treecf.Equals(a, 1.0), treecf.Equals(b, 1.0)) for a, b in self.implies),
            *(treecf.Linear(*one) for one in sums),
        ]
        return {
            "constraints": constraints,
            "value_policy": {c: treecf.Grid(float(step)) for c, step in self.steps.items()},
        }

    def to_treeproof(self, table: Table, row: pd.Series | None = None) -> dict[str, Any]:
        """As an attacker and relations; columns that only rise, or only fall, from a row on."""
        relations: list[Any] = [tp.one_of(*members, name=name) for name, members in self.groups.items()]
        relations += [tp.implies(f"`{a}` == 1", f"`{b}` == 1") for a, b in self.implies]
        relations += [f"`{a}` <= `{b}`" for a, b in self.orders]
        for factors, operator, bound in self.sums:
            total = " + ".join(f"{factor:g}*`{c}`" for c, factor in factors.items())
            relations.append(f"{total} {operator} {bound:g}")
        domain = dict(self.ranges)
        for c, sign in self.moves.items():
            low, high = domain.get(c, (-np.inf, np.inf))
            domain[c] = (float(row[c]), high) if sign > 0 else (low, float(row[c]))
        attacker = tp.Attacker.lp(
            1,
            1.0,
            features=[c for c in table.X if c not in self.frozen],
            domain=domain or None,
            scale=table.units,
            step=self.steps or None,
        )
        return {"attacker": attacker, "relations": relations or None}


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of constraint on one table."""

    name: str
    table: Callable[[], Table]
    said: Callable[[Table], Said]


def _every(table: Table, first: int, step: int) -> tuple[str, ...]:
    return tuple(table.X.columns[first::step])


def _middle(table: Table) -> dict[str, tuple[float, float]]:
    """The middle nine tenths of every other column."""
    return {c: tuple(table.X[c].quantile([0.05, 0.95])) for c in _every(table, 1, 2)}


def _worst(table: Table) -> tuple[tuple[str, str], ...]:
    """No mean is above the worst."""
    return tuple((c, c.replace("mean", "worst")) for c in table.X if c.startswith("mean"))


def _decimals(table: Table) -> dict[str, str]:
    return {c: {"BMI": "0.1", "Pedigree": "0.001"}.get(c, "1") for c in table.X}


TOTAL = ({"Glucose": 1.0, "BloodPressure": 1.0, "SkinThickness": 1.0, "Total": -1.0}, "==", 0.0)
HOMES = (("Housing.A153", "Property.A124"), ("Job.A171", "Telephone.A191"), ("Purpose.A40", "Savings.A61"))
FAMILIES = (("relationship.Husband", "sex.Male"), ("relationship.Wife", "sex.Female"),
            ("relationship.Husband", "marital-status.Married-civ-spouse"))


def _credit(table: Table) -> Said:
    return Said(
        frozen=("Age", "NumLiable", *table.groups["ForeignWorker"]),
        moves={"Duration": -1, "InstallmentRate": -1, "PresentResidence": 1},
        ranges={"CreditAmount": (250.0, 20000.0), "ExistingCredits": (1.0, 4.0)},
        steps=dict.fromkeys(("Duration", "CreditAmount", "InstallmentRate", "PresentResidence", "ExistingCredits"), "1"),
        groups=table.groups,
        implies=HOMES,
    )


def _census(table: Table) -> Said:
    return Said(
        frozen=(*table.groups["race"], *table.groups["sex"]),
        moves={"age": 1, "education-num": 1},
        ranges={"hours-per-week": (1.0, 99.0), "capital-gain": (0.0, 99999.0), "capital-loss": (0.0, 4356.0)},
        steps=dict.fromkeys(("age", "education-num", "hours-per-week", "capital-gain", "capital-loss"), "1"),
        groups=table.groups,
        implies=FAMILIES,
    )


KINDS = (
    Kind("none", breast_cancer, lambda table: Said()),
    Kind("Freeze", breast_cancer, lambda table: Said(frozen=_every(table, 0, 3))),
    Kind("Monotone", breast_cancer, lambda table: Said(moves=dict.fromkeys(_every(table, 0, 2), 1))),
    Kind("Range", breast_cancer, lambda table: Said(ranges=_middle(table))),
    Kind("Linear, a <= b", breast_cancer, lambda table: Said(orders=_worst(table))),
    Kind("Grid", diabetes, lambda table: Said(steps=_decimals(table))),
    Kind("OneHot", german, lambda table: Said(groups=table.groups)),
    Kind("OneHot", adult, lambda table: Said(groups=table.groups)),
    Kind("OneHot, Implies", german, lambda table: Said(groups=table.groups, implies=HOMES)),
    Kind("OneHot, Implies", adult, lambda table: Said(groups=table.groups, implies=FAMILIES)),
    Kind("all but Linear", german, _credit),
    Kind("all but Linear", adult, _census),
    Kind(
        "Linear, Freeze, Range", breast_cancer,
        lambda table: Said(orders=_worst(table), frozen=_every(table, 0, 7), ranges=_middle(table)),
    ),
    Kind("a + b + c == d, Grid", diabetes, lambda table: Said(steps=_decimals(table), sums=(TOTAL,))),
    Kind(
        "2a + b - 3c <= d, a <= b", breast_cancer,
        lambda table: Said(
            orders=_worst(table),
            sums=(
                ({"mean_radius": 2.0, "mean_texture": 1.0, "worst_radius": -3.0}, "<=", 0.0),
                ({"worst_smoothness": 1.0, "worst_compactness": 1.0, "worst_concavity": 1.0}, "<=", 1.5),
            ),
        ),
    ),
)


def theirs(model: Any, table: Table, said: Said, rows: pd.DataFrame) -> tuple[float, np.ndarray, int] | str:
    """Seconds, the prices, and how many are proved; or why it refuses."""
    import treecf

    words = said.to_treecf()
    explainer = treecf.Explainer(model, normalizers=table.units, **words)
    labels, values = model.predict(rows), rows.to_numpy()
    prices, proved = np.full(len(rows), np.inf), 0
    start = time.perf_counter()
    for i, (row, label) in enumerate(zip(values, labels, strict=True)):
        goal = treecf.Target.probability(op="<=" if label == 1 else ">=", value=0.5)
        try:
            found = explainer.explain(row, goal, backend="exact", time_budget_s=SECONDS, node_budget=10**9, seed=0)
        except treecf.ConstraintValidationError as error:
            return str(error)
        prices[i] = getattr(found, "distance", np.inf)
        proved += found.proof in ("optimal", "certified")
    return time.perf_counter() - start, prices, proved


def ours(ensemble: tp.Ensemble, table: Table, said: Said, rows: pd.DataFrame) -> tuple[float, np.ndarray, int]:
    """Seconds, the prices, and how many are proved."""
    single = [rows.iloc[i : i + 1] for i in range(len(rows))]
    questions = [(one, said.to_treeproof(table, one.iloc[0])) for one in single] if said.moves else [(rows, said.to_treeproof(table))]
    start = time.perf_counter()
    found = [tp.cheapest_attack(ensemble, some, **words) for some, words in questions]
    seconds = time.perf_counter() - start
    return seconds, np.concatenate([one.price for one in found]), sum(int(one.exact.sum()) for one in found)


def compare(rows: int) -> Iterator[str]:
    """One line per kind, table and size of the model."""
    from xgboost import XGBClassifier

    for kind in KINDS:
        table = kind.table()
        said = kind.said(table)
        inside = np.all([table.X[c].between(*ends) for c, ends in said.ranges.items()] or [np.ones(len(table.X), bool)], axis=0)
        inside[::2] = False
        asked = table.X[inside].head(rows)
        for trees, depth in SIZES:
            model = XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(table.X[::2], table.y[::2])
            ensemble = tp.from_model(model)
            ours(ensemble, table, said, asked)  # compiles
            seconds, prices, proved = ours(ensemble, table, said, asked)
            name = f"{kind.name:24} {kind.table.__name__:13} {f'{trees} × {depth}':8}"
            answer = theirs(model, table, said, asked)
            if isinstance(answer, str):
                yield f"{name} {'refuses':>9} {seconds:9.3f}s {'':8} {proved} proved. treecf: {answer}"
                continue
            their_seconds, their_prices, their_proved = answer
            equal = np.isclose(prices, their_prices, rtol=CLOSE, atol=1e-9) | (prices == their_prices)
            yield (
                f"{name} {their_seconds:8.3f}s {seconds:9.3f}s {their_seconds / seconds:7.1f}×  "
                f"{int(equal.sum())} of {len(asked)}, {proved}, {their_proved}"
                + ("" if equal.all() else f" {prices[~equal]} {their_prices[~equal]}")
            )
