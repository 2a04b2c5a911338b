"""What `benchmarks.proofs` has proved: models, rows, attackers, neighbourhoods and relations."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks import attackers, cases, cheapest_relations, deployed, frontier
from treeproof.paper import datasets


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be proved about some rows."""

    ensemble: tp.Ensemble
    X: Any
    attacker: tp.Attacker
    epsilon: Any = None
    relations: Sequence[Any] = ()
    seconds: float = cases.SECONDS
    """Per row."""
    all_of_it: bool = False
    """Whether rows count only if their neighbourhoods are proved, too; else whatever is proved of them counts."""

    @property
    def words(self) -> dict[str, Any]:
        """What verify is told besides rows."""
        epsilon = {} if self.epsilon is None else {"epsilon": self.epsilon}
        relations = {"relations": list(self.relations)} if self.relations else {}
        return {"timeout": self.seconds, "n_jobs": 1, "progress": False, **epsilon, **relations}


Named: TypeAlias = "tuple[str, Callable[[], Iterator[Task]]]"
"""A line of the table, and the tasks that it sums up, all about one model."""


def of_local(_: Any) -> Iterator[Named]:
    """The cases of benchmarks.local."""

    def tasks(case: cases.Case) -> Iterator[Task]:
        model, X = case.prepare()
        yield Task(tp.from_model(model), X, tp.Attacker.linf(case.delta))

    for case in cases.CASES:
        yield f"{case.name}, {case.delta}", partial(tasks, case)


def of_paper(options: Any) -> Iterator[Named]:
    """The paper's standard models, with its attackers and neighbourhoods."""
    table = json.loads(Path(os.environ["TREEPROOF_GOLDEN"], "paper/tables.json").read_text())
    split = cache(datasets.split)

    def tasks(line: dict[str, Any]) -> Iterator[Task]:
        data = split(line["dataset"])
        forest = RandomForestClassifier(line["trees"], max_depth=line["depth"], random_state=7)
        forest.fit(data.X_train, data.y_train)
        attacker = tp.Attacker((-table["perturbation"][line["dataset"]], 0.0), budget=1)
        yield Task(tp.from_model(forest, voting="hard"), data.X_test[: options.rows], attacker, line["epsilon"])

    for line in table["table_results"]:
        yield f"{line['dataset']}, {line['trees']} × {line['depth']}", partial(tasks, line)


# --- adult and german ------------------------------------------------------------------------------------------------

TABLES = {"adult": deployed.adult, "german": deployed.german_credit}
MAY_MISS = {"adult": ["workclass", "occupation", "native-country"], "german": ["Savings", "Property", "Age"]}
"""Columns whose values may be made missing; missing ones may be filled in."""


def of_deployed(options: Any) -> Iterator[Named]:
    """Models of text and numbers, some missing, with attackers who change categories, many numbers, or blank values."""
    loaded = {name: cache(load) for name, load in TABLES.items()}

    def tasks(data: str, kind: str, attack: str) -> Iterator[Task]:
        table = loaded[data]()
        ensemble, X = fitted(data, kind)
        numbers = table.X[table.numbers]
        near = dict.fromkeys(table.numbers, 1)
        if attack == "categories":
            yield Task(ensemble, X[: options.rows], table.attacker, near)
        elif attack == "any two":
            yield Task(ensemble, X[: options.rows], tp.Attacker.l0(2), near)
        elif attack == "Lp":
            spread = {name: float(numbers[name].std()) for name in numbers}
            yield Task(ensemble, X[: options.rows], tp.Attacker.lp(2, 0.2, features=list(numbers), scale=spread), near)
        else:
            moves = dict.fromkeys(MAY_MISS[data][:2], tp.ANY)
            words = {"blank": MAY_MISS[data], "fill": MAY_MISS[data][:1], "budget": 2}
            yield Task(ensemble, X[: options.rows], tp.Attacker(moves, **words), near)

    @cache
    def fitted(data: str, kind: str) -> tuple[tp.Ensemble, Any]:
        table = loaded[data]()
        n_train = len(table.X) * 3 // 4
        model, X, _ = attackers.MODELS[kind](table, slice(n_train))
        return tp.from_model(model, **({"categories": X[:n_train]} if kind == "CatBoost" else {})), X[n_train:]

    for data in TABLES:
        for kind in attackers.MODELS:
            for attack in ("categories", "any two", "Lp", "missing"):
                # CatBoost and imputers take no missing text.
                if attack != "missing" or kind not in ("CatBoost", "forest"):
                    yield f"{data}, {kind}, {attack}", partial(tasks, data, kind, attack)


ONE_HOT = {
    "german": {"Purpose": tp.ANY, "Savings": tp.ANY, "Duration": (-6, 6), "CreditAmount": (-500, 500)},
    "adult": {"occupation": tp.ANY, "workclass": tp.ANY, "hours-per-week": (-5, 5)},
}


def of_relations(options: Any) -> Iterator[Named]:
    """Adult and german with relations: on text columns, with sums; and on one-hot columns."""

    def on_text(make: Callable[[], attackers.Case]) -> Iterator[Task]:
        case = make()
        n_train = len(case.table.X) * 3 // 4
        model, X, _ = attackers.xgboost(case.table, slice(n_train))
        rows = X.iloc[n_train : n_train + options.rows]
        yield Task(tp.from_model(model), rows, case.attacker(None), case.epsilon, case.relations)

    def on_one_hot(kind: cheapest_relations.Kind, data: str) -> Iterator[Task]:
        from xgboost import XGBClassifier

        table = kind.table()
        said = kind.said(table)
        model = XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=7)
        ensemble = tp.from_model(model.fit(table.X.iloc[::2], table.y[::2]))
        rows = table.X.iloc[1::2][: options.rows]
        words = said.to_treeproof(table)
        attacker = tp.Attacker(ONE_HOT[data], budget=2)
        near = {name: 1 for name in ONE_HOT[data] if name not in table.groups}
        yield Task(ensemble, rows, attacker, near, words["relations"])
        yield Task(ensemble, rows, words["attacker"].with_radius(0.1), near, words["relations"])

    for name, make in attackers.CASES.items():
        yield name, partial(on_text, make)
    for kind in cheapest_relations.KINDS:
        for data in ONE_HOT:
            if kind.table is getattr(cheapest_relations, data):
                yield f"{data}, {kind.name}", partial(on_one_hot, kind, data)


# --- the frontier ----------------------------------------------------------------------------------------------------


def of_frontier(options: Any) -> Iterator[Named]:
    """Questions of benchmarks.frontier, drawn by a seed."""
    n_rows, sizes = 20, (None, frontier.EPSILON)
    shape = len(frontier.DATA), len(frontier.MODELS), len(frontier.PRICES), len(sizes), n_rows
    drawn = np.random.default_rng(options.seed).choice(int(np.prod(shape)), options.questions, replace=False)
    chosen: dict[tuple[int, int], dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for data, model, prices, size, row in zip(*np.unravel_index(np.sort(drawn), shape), strict=True):
        chosen[data, model][prices, size].append(row)

    def tasks(data: str, make: Any, some: dict[tuple[int, int], list[int]]) -> Iterator[Task]:
        X, y = frontier.load(data)
        train, test, labels, _ = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
        ensemble = tp.from_model(make(0).fit(train, labels))
        for (prices, size), rows in some.items():
            task = Task(ensemble, test, frontier.PRICES[prices].attacker, sizes[size], seconds=5.0, all_of_it=True)
            # One row at a time: a search of several shares what is made ready for it.
            for row in rows:
                yield replace(task, X=test[row : row + 1])

    for (data, model), some in sorted(chosen.items()):
        name = list(frontier.MODELS)[model]
        yield f"{frontier.DATA[data]}, {name}", partial(tasks, frontier.DATA[data], frontier.MODELS[name], some)


SETS = {
    "local": of_local,
    "paper": of_paper,
    "deployed": of_deployed,
    "relations": of_relations,
    "frontier": of_frontier,
}
