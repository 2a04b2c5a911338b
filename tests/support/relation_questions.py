"""Random questions, most with relations, small enough to try everything: models, rows, attackers, neighbourhoods."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.category_models import CODED, NUMBERS, random_model
from tests.support.stated_relations import OneHot, Stated, Words, is_valid, row_of
from treeproof.check import relation_texts
from treeproof.check.attackers import columns_of, sizes_of
from treeproof.check.columns import Column, Size
from treeproof.check.named_groups import Seen
from treeproof.check.objects import columns_content, epsilon_content
from treeproof.model.ensemble import Ensemble
from treeproof.threat.attacker_file import content_of

N_ROWS = 3


@dataclass(frozen=True)
class Question:
    """All that is given to `tp.verify`."""

    model: Any
    voting: str | None
    ensemble: Ensemble
    X: list[list[float]]
    attacker: tp.Attacker
    epsilon: dict[str, Any]
    relations: list[Stated]
    words: Words
    named: OneHot | None
    """A group of one-hot columns that the attacker calls by its name."""

    @property
    def names(self) -> list[str]:
        assert self.ensemble.feature_names is not None
        return list(self.ensemble.feature_names)

    @property
    def unit(self) -> Fraction:
        return self.words.unit

    @property
    def low(self) -> float:
        return float(-2 * self.unit)

    @property
    def high(self) -> float:
        return float((self.words.most + 2) * self.unit)

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        return {self.names[f]: each.values for f, each in self.ensemble.categories if each.coded}

    @cached_property
    def columns(self) -> list[Column]:
        """What the attacker can do to each column, and to the group that it names."""
        groups = []
        if self.named is not None:
            assert self.named.group is not None
            features = tuple(map(self.ensemble.feature_index, self.named.names))
            groups = [relation_texts.OneHot(features, self.named.exactly, self.named.group)]
        seen = Seen(self.attacker.named, columns_content(self.ensemble), groups)
        return columns_of(seen.model, content_of(self.attacker))

    @cached_property
    def sizes(self) -> list[Size]:
        """ε of each column."""
        own = {name: size for name, size in self.epsilon.items() if name in self.names}
        return sizes_of(columns_content(self.ensemble), epsilon_content(own or 0.0))

    @cached_property
    def stepped(self) -> frozenset[str]:
        """Columns that stand for the decimals they print as."""
        columns = zip(self.names, self.columns, strict=False)
        return frozenset(name for name, column in columns if column.step is not None)

    @property
    def given(self) -> list[Any]:
        """The relations as treeproof takes them."""
        return [relation.given() for relation in self.relations]

    def __str__(self) -> str:
        return (
            f"attacker = {self.attacker!r}\nepsilon = {self.epsilon!r}\n"
            f"relations = {self.given!r}\nX = {self.X!r}\nvoting = {self.voting!r}, model = {self.model!r}"
        )


def question(seed: int) -> Question:
    """The question of a number."""
    random = Random(seed)
    kind = random.choice(("numbers", "numbers", "decimals", "categories", "categories", "one-hot", "one-hot"))
    if kind == "categories":
        return _with_categories(random)
    return _one_hot(random) if kind == "one-hot" else _numbers(random, kind == "decimals")


# --- models ----------------------------------------------------------------------------------------------------------


def _fitted(random: Random, X: np.ndarray, names: list[str], library: str) -> tuple[Any, str | None]:
    """A small model of random labels."""
    y = np.array([random.randrange(random.choice((2, 2, 3))) for _ in X])
    y[:3] = [0, 1, random.choice((1, 2))]
    y = np.searchsorted(np.unique(y), y)
    frame, seed = pd.DataFrame(X, columns=names), random.randrange(2**31)
    n, depth = random.randint(1, 6), random.randint(1, 3)
    if library == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n, max_depth=depth, random_state=seed, n_jobs=1).fit(frame, y), None
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        words = {"min_child_samples": 2, "min_data_in_bin": 1, "verbose": -1, "n_jobs": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LGBMClassifier(n_estimators=n, max_depth=depth, random_state=seed, **words).fit(frame, y), None
    kind = random.choice((RandomForestClassifier, ExtraTreesClassifier))
    return kind(n, max_depth=depth, random_state=seed).fit(frame, y), random.choice(("soft", "hard"))


def _numbers(random: Random, decimals: bool) -> Question:
    """Columns of whole numbers, or of tenths."""
    names, most = list("abcd")[: random.randint(2, 4)], random.randint(3, 5)
    unit = Fraction(1, 10) if decimals else Fraction(1)
    library = random.choice(("sklearn", "sklearn", "xgboost", "lightgbm"))
    takes_missing = library != "sklearn" and random.random() < 0.4
    missing = tuple(names[: random.randint(1, 2)]) if takes_missing else ()

    def row() -> list[float]:
        return [
            math.nan if name in missing and random.random() < 0.25 else float(random.randint(0, most) * unit)
            for name in names
        ]

    model, voting = _fitted(random, np.array([row() for _ in range(40)]), names, library)
    words = Words(tuple(names), unit, most, {}, missing)
    relations = [words.relation(random) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 3)))]
    return _asked(random, model, voting, words, relations, row)


def _with_categories(random: Random) -> Question:
    """A coded category, a category of numbers, and two columns of tenths; any value may be missing."""
    model, most = random_model(random), 10
    unit = Fraction(1, 10)
    listed = {"a": CODED.values, "c": NUMBERS.values}
    words = Words(("b", "d"), unit, most, listed, ("a", "b", "c", "d"))
    missing = random.random() < 0.5

    def row() -> list[float]:
        values = [float(random.randrange(6)), float(random.randint(0, most) * unit)]
        values += [float(random.choice((*NUMBERS.values, 3))), float(random.randint(0, most) * unit)]
        return [math.nan if missing and random.random() < 0.15 else value for value in values]

    relations = [words.relation(random) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 3)))]
    return _asked(random, model, None, words, relations, row)


def _one_hot(random: Random) -> Question:
    """Two or three one-hot columns, and one or two of whole numbers."""
    bits, numbers = list("pqr")[: random.randint(2, 3)], list("ab")[: random.randint(1, 2)]
    names, most = [*bits, *numbers], random.randint(2, 4)
    random.shuffle(names)
    group = OneHot(tuple(random.sample(bits, len(bits))), random.random() < 0.6, random.choice(("kind", None)))

    def row() -> list[float]:
        one = random.choice((*bits, *(() if group.exactly else (None,))))
        values = {name: float(name == one) for name in bits}
        if random.random() < 0.1:
            values[random.choice(bits)] = random.choice((0.0, 0.5, 1.0))
        return [values[name] if name in bits else float(random.randint(0, most)) for name in names]

    library = random.choice(("sklearn", "sklearn", "xgboost", "lightgbm"))
    model, voting = _fitted(random, np.array([row() for _ in range(40)]), names, library)
    words = Words(tuple(names), Fraction(1), most, dict.fromkeys(bits, (0, 1)))
    relations: list[Stated] = [words.relation(random) for _ in range(random.randint(0, 2))]
    relations.insert(random.randint(0, len(relations)), group)
    return _asked(random, model, voting, words, relations, row)


# --- attackers -------------------------------------------------------------------------------------------------------


def _asked(random: Random, model: Any, voting: str | None, words: Words, relations: list[Stated], row: Any) -> Question:
    ensemble = tp.from_model(model, voting=voting) if voting else tp.from_model(model)
    group = next((each for each in relations if isinstance(each, OneHot)), None)
    attacker, named = _attacker(random, ensemble, words, group)
    bits = () if group is None else group.names
    numbers = [name for name in words.numbers if name not in bits]
    sizes = {name: float(random.choice((1, 1, 2)) * words.unit) for name in numbers}
    epsilon = {name: sizes[name] for name in random.sample(numbers, min(len(numbers), random.randint(1, 2)))}
    asked = Question(model, voting, ensemble, [], attacker, epsilon, relations, words, named)
    while len(asked.X) < N_ROWS:
        values = row()
        by_name = row_of(values, asked.names, asked.texts)
        if is_valid(relations, by_name, asked.stepped) or random.random() < 0.03:
            asked.X.append(values)
    if random.random() < 0.5:
        asked.epsilon.update(_sets(random, words, group))
    return asked


def _sets(random: Random, words: Words, group: OneHot | None) -> dict[str, Any]:
    """Values that may stand for each other in neighbours, of categories and of a group of one-hot columns."""
    if group is None:
        listed = dict(words.listed)
    else:
        listed = {group.group: group.values} if group.group else {}
    sets: dict[str, Any] = {}
    for name, values in listed.items():
        some = tp.values(*random.sample(values, random.randint(2, len(values))))
        rest = [value for value in values if value not in some.values]
        several = [some, tp.values(*rest)] if rest else some
        sets[name] = random.choice((tp.ANY, some, several))
    return sets


def _attacker(
    random: Random, ensemble: Ensemble, words: Words, group: OneHot | None
) -> tuple[tp.Attacker, OneHot | None]:
    """An attacker of any kind, and the group if he calls it by its name."""
    bits = () if group is None else group.names
    numbers = [name for name in words.numbers if name not in bits]
    named = group if group is not None and group.group and random.random() < 0.6 else None
    unit = words.unit
    domain = {name: (float(-unit), float((words.most + 1) * unit)) for name in numbers}
    step = {"all": dict.fromkeys(numbers, str(float(unit))), "none": None, "some": {numbers[0]: str(float(unit))}}[
        random.choice(("all", "all", "all", "none", "none", "some"))
    ]
    goal = random.choice(ensemble.classes.tolist()) if random.random() < 0.3 else None
    words_of_all: dict[str, Any] = {"domain": domain, "step": step, "goal": goal}
    kind = random.random()
    if kind < 0.1 and named is None:
        return tp.Attacker.linf(float(random.randint(1, 2) * unit), **words_of_all), None
    if kind < 0.2 and named is None:
        return tp.Attacker.l0(random.randint(1, 3), **words_of_all), None
    if kind < 0.35 and named is None:
        radius = float(random.randint(1, 3) * unit)
        scale = {random.choice(numbers): random.choice((0.3, 0.5, 2.0))} if random.random() < 0.3 else None
        one_way = {random.choice(("up", "down")): [random.choice(numbers)]} if random.random() < 0.3 else {}
        return tp.Attacker.lp(random.randint(1, 2), radius, scale=scale, **one_way, **words_of_all), None
    more = _more(random, ensemble, words, numbers, named)
    budget = random.choice((None, 1, 2, 3, 4, 5))
    if kind < 0.5 and named is None and (rules := _rules(random, words, numbers, step or {})):
        return tp.Attacker.rules(rules, budget=budget, **words_of_all, **more), None
    moves, costs = _moves(random, ensemble, words, numbers, step or {})
    if group is not None and named is None:
        moves |= {name: random.choice(((-1, 1), tp.ANY, (0, 1))) for name in bits if random.random() < 0.8}
        costs |= {name: random.randint(0, 3) for name in bits if random.random() < 0.5}
    if named is not None:
        assert named.group is not None
        values = named.values
        moves[named.group] = tp.ANY if random.random() < 0.7 else tp.values(*random.sample(values, 2))
        costs[named.group] = random.randint(0, 3)
        if random.random() < 0.3:
            del moves[named.group]
            costs[named.group] = _matrix(random, values, 4)
    if not moves and not any(isinstance(cost, dict) for cost in costs.values()):
        moves[numbers[0]], costs = (float(-unit), float(unit)), {}
    unseen = moves.get("a") == tp.ANY and bool(words.listed) and group is None and random.random() < 0.3
    words_of_all |= more
    return tp.Attacker(moves, costs=costs or 1, budget=budget, unseen=unseen, **words_of_all), named


def _more(random: Random, ensemble: Ensemble, words: Words, numbers: list[str], named: OneHot | None) -> dict[str, Any]:
    """Blanks, fills, and groups with a budget of their own."""
    more: dict[str, Any] = {}
    for what in ("blank", "fill"):
        if columns := [name for name in words.missing if random.random() < 0.3]:
            more[what] = {name: random.randint(0, 2) for name in columns}
    columns = [*numbers, *([named.group] if named is not None else [])]
    columns += [name for name in words.listed if name in "ac"]
    if len(columns) > 1 and random.random() < 0.25:
        more |= {"groups": {"some": random.sample(columns, 2)}, "budgets": {"some": random.randint(0, 3)}}
    return more


def _moves(
    random: Random, ensemble: Ensemble, words: Words, numbers: list[str], step: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What may happen to each column, and what it costs."""
    moves: dict[str, Any] = {}
    costs: dict[str, Any] = {}
    for name in numbers:
        points = [float(k * words.unit) for k in range(words.most + 1)]
        kind = random.choice(("still", "interval", "interval", "interval", "steps", "values", "any", "matrix"))
        ends = float(-random.randint(0, 2) * words.unit), float(random.randint(1, 3) * words.unit)
        if random.random() < 0.2:
            ends = float(words.unit), ends[1]  # it must move at least so far
        if random.random() < 0.3:
            ends = -ends[1], -ends[0]
        if kind == "interval":
            moves[name] = ends
        elif kind == "steps" and name not in step:
            moves[name] = tp.steps(*ends, str(float(words.unit)))
        elif kind == "values":
            moves[name] = tp.values(*random.sample(points, 2), random.choice(points) + float(words.unit / 2))
        elif kind == "any":
            moves[name] = tp.ANY
        elif kind == "matrix" and name not in step:
            costs[name] = _matrix(random, points, 6)
        if kind != "matrix" and random.random() < 0.5:
            costs[name] = random.randint(0, 3)
    for name, values in words.listed.items():
        if name not in "ac":
            continue
        kind = random.choice(("still", "any", "any", "values", "matrix"))
        if kind == "any":
            moves[name] = tp.ANY
        elif kind == "values":
            moves[name] = tp.values(*random.sample(values, 3))
        elif kind == "matrix":
            costs[name] = _matrix(random, values, 8)
        if kind != "matrix" and random.random() < 0.5:
            costs[name] = random.randint(0, 3)
    return moves, costs


def _matrix(random: Random, values: Any, n: int) -> dict[tuple[Any, Any], int]:
    pairs = list(itertools.permutations(values, 2))
    return {pair: random.randint(0, 3) for pair in random.sample(pairs, min(n, len(pairs)))}


def _rules(random: Random, words: Words, numbers: list[str], step: dict[str, str]) -> list[tp.Rule]:
    """Rules that lead somewhere, in columns with a step from point to point of the grid."""
    rules = []
    for _ in range(random.randint(1, 4)):
        name, cost = random.choice([*numbers, *(name for name in words.listed if name in "ac")]), random.randint(1, 2)
        if name in words.listed:
            values = words.listed[name]
            rules.append(tp.Rule(name, when=set(random.sample(values, 2)), to=random.choice(values), cost=cost))
            continue
        half = words.unit / 2
        low, high = sorted((random.choice((-2, -1, 0, 1, 2)), random.choice((-2, -1, 1, 2))))
        if random.random() < 0.6:
            low = high = high or 1
        when = sorted(float(random.randint(0, words.most) * words.unit) for _ in range(2))
        size = 2 * half if low == high or (name in step and -2 < low and high < 2) else half
        change = tuple(str(float(end * size)) for end in (low, high))
        rules.append(tp.Rule(name, when=(when[0], when[1]), change=change, cost=cost))
    return rules
