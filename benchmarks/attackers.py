"""Attackers and relations as people have them, on models of raw text columns.

    python -m benchmarks.attackers [--only TEXT] [--rows 100] [--model XGBoost] [--budgets 3] [--tries 400]

The models of `benchmarks.deployed` (XGBoost with depth 6), trained on three quarters of adult and german_credit; the
first of the other rows are asked about. Robustness, and resilience for an ε on the numbers. Every counterexample is
replayed with the library's own `predict`. Another method attacks every row that is proved or unknown: random moves and
a climb on the library's own probabilities; whether rows are valid is decided there by NumPy, not by treeproof. It must
break no row that is proved. Labels are the model's own, so that every row is a question. Seconds are by the clock, of
one thread, when compiled code is loaded; beside them CPU seconds, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from benchmarks import deployed

Valid = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Case:
    """Rows, what may happen to them, and which are valid: by treeproof's relations, and by NumPy."""

    table: deployed.Table
    moves: dict[str, Any]
    """Per column the whole numbers that may be added, from and to, or ANY."""
    epsilon: dict[str, int]
    relations: list[Any]
    valid: list[Valid]
    """The same relations, for the method that is not ours."""
    budget: int = 3

    def attacker(self, budget: int | None) -> tp.Attacker:
        """The attacker, with this budget or the case's own."""
        # Neighbours are whole numbers, too.
        numbers = dict.fromkeys(self.table.numbers, 1)
        moves = {name: tp.ANY if move is tp.ANY else tp.steps(*move, 1) for name, move in self.moves.items()}
        return tp.Attacker(moves, budget=budget or self.budget, step=numbers)


def implies(condition: Any, conclusion: Any) -> Any:
    return ~condition | conclusion


# --- adult -----------------------------------------------------------------------------------------------------------

MOVES = {"occupation": tp.ANY, "workclass": tp.ANY, "hours-per-week": (-5, 5), "capital-gain": (0, 2000)}
NEAR = {"age": 1, "hours-per-week": 1, "capital-gain": 50, "fnlwgt": 500}


def plain_adult() -> Case:
    """Five relations, two of them linear over three columns; most rows are far from them."""
    relations = [
        "`capital-gain` + `capital-loss` + `hours-per-week` <= 100000",
        "`hours-per-week` + `education-num` - age <= 60",
        tp.implies("workclass == 'Never-worked'", "`hours-per-week` <= 10"),
        "`hours-per-week` >= 1",
        tp.any_of("`capital-gain` == 0", "`capital-loss` == 0"),
    ]
    valid: list[Valid] = [
        lambda x: x["capital-gain"] + x["capital-loss"] + x["hours-per-week"] <= 100000,
        lambda x: x["hours-per-week"] + x["education-num"] - x.age <= 60,
        lambda x: implies(x.workclass == "Never-worked", x["hours-per-week"] <= 10),
        lambda x: x["hours-per-week"] >= 1,
        lambda x: (x["capital-gain"] == 0) | (x["capital-loss"] == 0),
    ]
    return Case(deployed.adult(), MOVES, NEAR, relations, valid)


def tight_adult() -> Case:
    """Five relations, of which two over three columns bind on most rows."""
    relations = [
        "`capital-gain` - 20*`hours-per-week` - 10*`education-num` <= 0",
        "2*`hours-per-week` + 3*`education-num` - age <= 75",
        tp.implies("workclass == 'Private'", "`hours-per-week` >= 20"),
        tp.implies("occupation == 'Exec-managerial'", "`education-num` >= 10"),
        tp.any_of("`capital-gain` == 0", "`capital-loss` == 0"),
    ]
    valid: list[Valid] = [
        lambda x: x["capital-gain"] <= 20 * x["hours-per-week"] + 10 * x["education-num"],
        lambda x: 2 * x["hours-per-week"] + 3 * x["education-num"] - x.age <= 75,
        lambda x: implies(x.workclass == "Private", x["hours-per-week"] >= 20),
        lambda x: implies(x.occupation == "Exec-managerial", x["education-num"] >= 10),
        lambda x: (x["capital-gain"] == 0) | (x["capital-loss"] == 0),
    ]
    return Case(deployed.adult(), MOVES, NEAR, relations, valid)


def summed_adult() -> Case:
    """Two equalities over three columns: regular and extra hours add up, and so do gain, loss and what is left."""
    table = deployed.adult()
    X = table.X.copy()
    X["regular"] = X["hours-per-week"].clip(upper=40)
    X["extra"] = X["hours-per-week"] - X["regular"]
    X["net"] = X["capital-gain"] - X["capital-loss"]
    moves = MOVES | {"regular": (-5, 5), "extra": (-5, 5), "net": (0, 2000)}
    relations = [
        "regular + extra == `hours-per-week`",
        "`capital-gain` - `capital-loss` == net",
        "regular >= 0",
        "extra >= 0",
        tp.implies("extra > 0", "regular >= 35"),
    ]
    valid: list[Valid] = [
        lambda x: x.regular + x.extra == x["hours-per-week"],
        lambda x: x["capital-gain"] - x["capital-loss"] == x.net,
        lambda x: (x.regular >= 0) & (x.extra >= 0),
        lambda x: implies(x.extra > 0, x.regular >= 35),
    ]
    near = NEAR | {"regular": 1, "extra": 1, "net": 50}
    return Case(deployed.Table(X, table.y, table.attacker), moves, near, relations, valid, budget=4)


def many_adult() -> Case:
    """Twenty relations: what a level of education is called goes with its number, and four more."""
    table = deployed.adult()
    levels = dict(table.X[["education", "education-num"]].drop_duplicates().to_numpy().tolist())
    moves = MOVES | {"education": tp.ANY, "education-num": (-2, 2), "relationship": tp.ANY, "marital-status": tp.ANY}
    relations: list[Any] = [
        tp.implies(f"education == '{name}'", f"`education-num` == {n}") for name, n in levels.items()
    ]
    relations += [
        tp.implies("relationship == 'Husband'", "sex == 'Male'"),
        tp.implies("relationship == 'Wife'", "sex == 'Female'"),
        tp.implies("relationship == 'Husband'", "`marital-status` == 'Married-civ-spouse'"),
        "`hours-per-week` + 2*`education-num` - age <= 50",
    ]
    valid: list[Valid] = [
        lambda x: x.education.map(levels).astype(float) == x["education-num"],
        lambda x: implies(x.relationship == "Husband", x.sex == "Male"),
        lambda x: implies(x.relationship == "Wife", x.sex == "Female"),
        lambda x: implies(x.relationship == "Husband", x["marital-status"] == "Married-civ-spouse"),
        lambda x: x["hours-per-week"] + 2 * x["education-num"] - x.age <= 50,
    ]
    return Case(table, moves, NEAR, relations, valid)


def far_adult() -> Case:
    """The tight relations and a large neighbourhood."""
    tight = tight_adult()
    near = {
        "age": 5,
        "hours-per-week": 5,
        "capital-gain": 500,
        "capital-loss": 100,
        "fnlwgt": 20000,
        "education-num": 1,
    }
    return Case(tight.table, tight.moves, near, tight.relations, tight.valid)


def german() -> Case:
    """Rates and ages bound amounts; other purposes and savings."""
    moves = {"Purpose": tp.ANY, "Savings": tp.ANY, "Duration": (-6, 6), "CreditAmount": (-1000, 1000)}
    relations = [
        "CreditAmount - 150*Duration - 500*InstallmentRate <= 0",
        "CreditAmount - 60*Duration + 100*Age >= 2500",
        tp.implies("Purpose == 'A40'", "CreditAmount >= 1500"),
        tp.any_of("Savings != 'A65'", "Duration <= 24"),
        "Duration >= 4",
    ]
    valid: list[Valid] = [
        lambda x: x.CreditAmount - 150 * x.Duration - 500 * x.InstallmentRate <= 0,
        lambda x: x.CreditAmount - 60 * x.Duration + 100 * x.Age >= 2500,
        lambda x: implies(x.Purpose == "A40", x.CreditAmount >= 1500),
        lambda x: implies(x.Savings == "A65", x.Duration <= 24),
        lambda x: x.Duration >= 4,
    ]
    near = {"Duration": 1, "CreditAmount": 100, "Age": 2}
    return Case(deployed.german_credit(), moves, near, relations, valid)


CASES: dict[str, Callable[[], Case]] = {
    "adult, five relations": plain_adult,
    "adult, tight": tight_adult,
    "adult, equalities": summed_adult,
    "adult, twenty relations": many_adult,
    "adult, tight, large ε": far_adult,
    "german_credit": german,
}


def xgboost(table: deployed.Table, train: slice) -> deployed.Fitted:
    from xgboost import XGBClassifier

    X = table.with_categories()
    y = np.unique(table.y, return_inverse=True)[1]
    model = XGBClassifier(
        n_estimators=500, max_depth=6, learning_rate=0.1, enable_categorical=True, tree_method="hist", n_jobs=2
    )
    return model.fit(X[train], y[train]), X, 0


MODELS = {
    "XGBoost": xgboost,
    "LightGBM": deployed.lightgbm,
    "CatBoost": deployed.catboost,
    "HistGradientBoosting": deployed.hist_gradient_boosting,
    "forest": deployed.forest,
}


# --- another method --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rival:
    """Attacks rows without treeproof: random moves, and a climb on the library's probabilities."""

    case: Case
    model: Any
    X: pd.DataFrame
    """All rows of the table, as the model takes them."""
    budget: int
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def breaks(self, row: pd.DataFrame, tries: int, near: bool) -> bool:
        """Whether it finds a pair with two labels: near the row, or at the row itself, and after a valid attack."""
        start = self._copies(row, 30 if near else 1)
        if near:
            for name, size in self.case.epsilon.items():
                start.loc[1:, name] += self.random.integers(-size, size + 1, len(start) - 1)
            start = start[self._valid(start) | (np.arange(len(start)) == 0)].reset_index(drop=True)
        labels = self._labels(start)
        at = self.random.integers(0, len(start), tries)
        moved = start.iloc[at].reset_index(drop=True)
        names = list(self.case.moves)
        chosen = (
            self.random.random((tries, len(names))).argsort(axis=1)
            < self.random.integers(1, min(self.budget, len(names)) + 1, tries)[:, None]
        )
        for k, name in enumerate(names):
            some = np.flatnonzero(chosen[:, k])
            moved.loc[some, name] = self._moved(moved.loc[some, name], name)
        valid = self._valid(moved)
        if valid.any() and (self._labels(moved[valid]) != labels[at][valid]).any():
            return True
        return self._climbs(start.iloc[[-1]], labels[-1])

    def _climbs(self, row: pd.DataFrame, label: Any) -> bool:
        """Takes the valid change of one column that the label likes least, again and again."""
        column = list(self.model.classes_).index(label)
        changed: set[str] = set()
        for _ in range(self.budget):
            tried = []
            for name in self.case.moves:
                if name not in changed:
                    many = self._copies(row, 40)
                    many[name] = self._moved(many[name], name)
                    tried.append(many.assign(changed=name))
            if not tried:
                return False
            every = pd.concat(tried, ignore_index=True)
            names = every.pop("changed")
            valid = self._valid(every)
            if not valid.any():
                return False
            every, names = every[valid].reset_index(drop=True), names[valid].reset_index(drop=True)
            every = every.astype(self.X.dtypes.to_dict())
            liked = self.model.predict_proba(every)[:, column]
            best = int(np.argmin(liked))
            row, changed = every.iloc[[best]], changed | {names[best]}
            if self._labels(row)[0] != label:
                return True
        return False

    def _copies(self, row: pd.DataFrame, n: int) -> pd.DataFrame:
        return row.loc[row.index.repeat(n)].reset_index(drop=True)

    def _moved(self, values: Any, name: str) -> Any:
        """Other values; what is missing stays so."""
        move = self.case.moves[name]
        if move is tp.ANY:
            known = self.random.choice(self.X[name].dropna().unique().astype(object), len(values))
            return np.where(values.isna(), values.astype(object), known)
        return values + self.random.integers(move[0], move[1] + 1, len(values))

    def _valid(self, frame: pd.DataFrame) -> Any:
        return np.logical_and.reduce([np.asarray(one(frame), dtype=bool) for one in self.case.valid])

    def _labels(self, frame: pd.DataFrame) -> Any:
        return np.asarray(self.model.predict(frame.astype(self.X.dtypes.to_dict()))).reshape(-1)


# --- what is measured ------------------------------------------------------------------------------------------------


def measured(case: Case, kind: str, given: argparse.Namespace) -> Iterator[str]:
    """A line for robustness, and one for resilience."""
    n_train = len(case.table.X) * 3 // 4
    model, X, _ = MODELS[kind](case.table, slice(n_train))
    ensemble = tp.from_model(model, **({"categories": X[:n_train]} if kind == "CatBoost" else {}))
    rows = X.iloc[n_train : n_train + given.rows]
    y = ensemble.predict(rows)
    for budget in [int(one) for one in given.budgets.split(",")] if given.budgets else [case.budget]:
        for epsilon in (None, case.epsilon):
            words = {"epsilon": epsilon, "relations": case.relations, "n_jobs": 1, "timeout": given.timeout}
            attacker = case.attacker(budget)
            tp.verify(ensemble, rows[:1], y[:1], attacker, **words)
            began, cpu = time.perf_counter(), time.process_time()
            result = tp.verify(ensemble, rows, y, attacker, **words)
            seconds = time.perf_counter() - began, time.process_time() - cpu
            rival = Rival(case, model, X, budget)
            yield f"{budget:6} {line(result, epsilon is not None, seconds, rival, rows, given.tries)}"


def line(
    result: tp.Verification, near: bool, seconds: tuple[float, float], rival: Rival, rows: pd.DataFrame, tries: int
) -> str:
    outcomes = result.resilience_by_epsilon[0] if near else result.stability
    proved, unknown = outcomes == tp.Outcome.PROVED, outcomes == tp.Outcome.UNKNOWN
    shown = result.has_witness
    after = np.asarray(rival.model.predict(result.attacked_frame())).reshape(-1)
    broken = np.zeros(len(rows), dtype=bool)
    for row in np.flatnonzero(~shown).tolist() if tries else ():
        broken[row] = rival.breaks(rows.iloc[[row]], tries, near)
    return (
        f"{'resilient' if near else 'robust':9} {seconds[0]:7.2f}s {seconds[1]:7.2f}s "
        f"{proved.sum():7} {shown.sum():7} {unknown.sum():7}   "
        f"{(after != result.neighbour_label[shown]).sum()} of {shown.sum()} replayed   "
        + (f"{(broken & proved).sum()} proved, {(broken & unknown).sum()} unknown" if tries else "not asked")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the name of a case")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--model", choices=list(MODELS), default="XGBoost")
    parser.add_argument("--budgets", default="", help="such as 1,2,6; else the case's own")
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--tries", type=int, default=400, help="random attacks of the other method; 0: leave it out")
    given = parser.parse_args()
    print(
        f"{'':28} {'':10} {'budget':>6} {'':9} {'clock':>8} {'CPU':>8} {'proved':>7} {'refuted':>7} {'unknown':>7}   "
        "counterexamples   broken by the other method"
    )
    for name, make in CASES.items():
        if given.only in name:
            for said in measured(make(), given.model, given):
                print(f"{name:28} {given.model:10} {said}", flush=True)


if __name__ == "__main__":
    main()
