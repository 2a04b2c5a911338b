"""The cheapest L1 attack under relations, against treecf's exact search: one kind of constraint after the other.

`python -m benchmarks.cheapest --relations` runs it. Both get the same XGBoost model, the same rows and the same
constraints, each in its own words, one after the other in the same run. Times are CPU seconds; reading the model is not
counted on either side, and both have `SECONDS` a row. Distances are in units of a column's range, and 1 for one-hot
columns.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import treeproof as tp

DATA = Path(os.environ.get("TREEPROOF_DATA", "../shared/data"))
SIZES = ((30, 3), (100, 4), (100, 6))
"""Trees, and their depth."""
SECONDS = 5.0
"""What both have for a row."""
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""How far prices may be apart: behind a threshold treecf tries the next float32, we the next double."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows for training and for questions."""

    X: pd.DataFrame
    y: np.ndarray
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Its one-hot groups."""

    @cached_property
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

    def to_treeproof(self, table: Table) -> dict[str, Any]:
        """As an attacker and relations."""
        relations: list[Any] = [tp.one_of(*members, name=name) for name, members in self.groups.items()]
        relations += [tp.implies(f"`{a}` == 1", f"`{b}` == 1") for a, b in self.implies]
        relations += [f"`{a}` <= `{b}`" for a, b in self.orders]
        for factors, operator, bound in self.sums:
            total = " + ".join(f"{factor:g}*`{c}`" for c, factor in factors.items())
            relations.append(f"{total} {operator} {bound:g}")
        attacker = tp.Attacker.lp(
            1,
            1.0,
            features=[c for c in table.X if c not in self.frozen],
            domain=self.ranges or None,
            scale=table.units,
            up=[c for c, sign in self.moves.items() if sign > 0] or None,
            down=[c for c, sign in self.moves.items() if sign < 0] or None,
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
FAMILIES = (
    ("relationship.Husband", "sex.Male"),
    ("relationship.Wife", "sex.Female"),
    ("relationship.Husband", "marital-status.Married-civ-spouse"),
)
SUMS = (
    ({"mean_radius": 2.0, "mean_texture": 1.0, "worst_radius": -3.0}, "<=", 0.0),
    ({"worst_smoothness": 1.0, "worst_compactness": 1.0, "worst_concavity": 1.0}, "<=", 1.5),
)
WHOLE = ("Duration", "CreditAmount", "InstallmentRate", "PresentResidence", "ExistingCredits")


def _credit(table: Table) -> Said:
    return Said(
        frozen=("Age", "NumLiable", *table.groups["ForeignWorker"]),
        moves={"Duration": -1, "InstallmentRate": -1, "PresentResidence": 1},
        ranges={"CreditAmount": (250.0, 20000.0), "ExistingCredits": (1.0, 4.0)},
        steps=dict.fromkeys(WHOLE, "1"),
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
    Kind("none", breast_cancer, lambda _: Said()),
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
        "Linear, Freeze, Range",
        breast_cancer,
        lambda table: Said(orders=_worst(table), frozen=_every(table, 0, 7), ranges=_middle(table)),
    ),
    Kind("2a + b <= 3c, a <= b", breast_cancer, lambda table: Said(orders=_worst(table), sums=SUMS)),
    Kind("a + b + c == d, Grid", diabetes, lambda table: Said(steps=_decimals(table), sums=(TOTAL,))),
)


@dataclass(frozen=True, eq=False)
class Answers:
    """CPU seconds, the prices, and which of them are proved."""

    seconds: float
    prices: np.ndarray
    proved: np.ndarray


def theirs(model: Any, table: Table, said: Said, rows: pd.DataFrame) -> Answers | str:
    """What treecf finds; or why it refuses."""
    import treecf

    explainer = treecf.Explainer(model, normalizers=table.units, **said.to_treecf())
    labels, values = model.predict(rows), rows.to_numpy()
    prices, proved = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=bool)
    start = time.process_time()
    for i, (row, label) in enumerate(zip(values, labels, strict=True)):
        goal = treecf.Target.probability(op="<=" if label == 1 else ">=", value=0.5)
        try:
            found = explainer.explain(row, goal, backend="exact", time_budget_s=SECONDS, node_budget=10**9, seed=0)
        except treecf.ConstraintValidationError as error:
            return str(error)
        prices[i] = getattr(found, "distance", np.inf)
        proved[i] = found.proof in ("optimal", "certified")
    return Answers(time.process_time() - start, prices, proved)


def ours(ensemble: tp.Ensemble, table: Table, said: Said, rows: pd.DataFrame) -> Answers:
    """What treeproof finds."""
    values, words = rows.to_numpy(), said.to_treeproof(table)
    start = time.process_time()
    found = tp.cheapest_attack(ensemble, values, timeout=SECONDS, **words)
    return Answers(time.process_time() - start, found.price, found.exact)


def _asked(table: Table, said: Said, rows: int) -> pd.DataFrame:
    """The first rows that were not trained on and lie in the ranges."""
    inside = np.arange(len(table.X)) % 2 == 1
    for c, ends in said.ranges.items():
        inside &= table.X[c].between(*ends).to_numpy()
    return table.X[inside].head(rows)


def _line(name: str, mine: Answers, other: Answers | str) -> str:
    proved = f"{int(mine.proved.sum())} of {len(mine.prices)}"
    if isinstance(other, str):
        return f"{name} {'refused':>9} {mine.seconds:9.3f}s {'':8} {'':>13} {proved:>9}   {other}"
    both = mine.proved & other.proved
    equal = np.isclose(mine.prices, other.prices, **CLOSE) | (mine.prices == other.prices)
    equals, its_proved = f"{int((equal & both).sum())} of {int(both.sum())}", f"{int(other.proved.sum())}"
    ratio = other.seconds / mine.seconds
    line = f"{name} {other.seconds:8.3f}s {mine.seconds:9.3f}s {ratio:7.1f}× {equals:>13} {proved:>9} {its_proved:>6}"
    apart = np.flatnonzero(both & ~equal)
    return line + "".join(f"  ours {mine.prices[i]!r}, treecf {other.prices[i]!r}" for i in apart)


def compare(rows: int) -> Iterator[str]:
    """A head, and one line per kind, table and size of the model."""
    from xgboost import XGBClassifier

    # treecf warns of rows that break constraints, and of time that is up, which the lines say.
    warnings.filterwarnings("ignore", module=__name__)
    head = f"{'constraints':24} {'rows of':13} {'model':8}"
    yield f"{head} {'treecf':>9} {'treeproof':>10} {'ratio':>8} {'equal':>13} {'proved':>9} {'treecf':>6}"
    for kind in KINDS:
        table = kind.table()
        said = kind.said(table)
        asked = _asked(table, said, rows)
        for trees, depth in SIZES:
            model = XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(table.X[::2], table.y[::2])
            ensemble = tp.from_model(model)
            ours(ensemble, table, said, asked)  # compiles
            name = f"{kind.name:24} {kind.table.__name__:13} {f'{trees} × {depth}':8}"
            yield _line(name, ours(ensemble, table, said, asked), theirs(model, table, said, asked))
