"""Small models on frames of awkward columns, and what their libraries say."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.fuzz import spellings
from tests.support.fuzz.related import Related, relation
from tests.support.fuzz.spellings import Meant

CLASSES: tuple[tuple[Any, ...], ...] = (
    ("no", "yes"), (0, 1), ("1", "1.0"), ("1e2", "100"), ("1.1", "1.10"), (False, True), (0.0, 1.0), ("True",
    "False"), (3, 7),
    ("bad", "good", "none"), ("1", "2", "01"), (-1, 1), ("a", "a "), (1, 2, 3), ("NA", "no"), ("0", "1"), ("x,y",
    'q"q'),
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """One column of the frame: how cells of it are meant."""

    name: str
    kind: str
    """number, word, whole or truth."""
    known: tuple[Any, ...] = ()

    def meant(self, text: str, decimal: str = ".") -> Meant:
        if self.kind == "word":
            return spellings.word(text, self.known)
        if self.kind == "truth":
            return spellings.truth(text)
        return spellings.whole(text, self.known, decimal) if self.kind == "whole" else spellings.number(text, decimal)


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model."""

    name: str
    model: Any
    ensemble: tp.Ensemble
    train: pd.DataFrame
    y: np.ndarray[Any, Any]
    columns: tuple[Told, ...]
    classes: tuple[Any, ...]
    as_given: Callable[[pd.DataFrame], Any]
    """A frame of numbers and objects as the library takes it."""
    relations: tuple[Related, ...] = ()
    """What valid rows keep."""

    @cached_property
    def unrelated(self) -> Subject:
        """The same where no row is invalid."""
        return replace(self, relations=())

    def breaks(self, row: list[Any]) -> bool:
        """Whether a row is none that can exist."""
        # CatBoost makes text of whole numbers and truth values, and so it is with the text that they are a value.
        is_text = [self.name == "catboost" and c.kind == "word" and isinstance(v, int) for c, v in self._cells(row)]
        own = [str(int(value)) if text else value for value, text in zip(row, is_text, strict=True)]
        named = {column.name: value for column, value in self._cells(own)}
        return any(one.holds(named) is False for one in self.relations)

    def _cells(self, row: list[Any]) -> list[tuple[Told, Any]]:
        return list(zip(self.columns, row, strict=True))

    def predict(self, frame: pd.DataFrame) -> list[Any] | None:
        """The library's labels; None where it raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return np.asarray(self.model.predict(self.as_given(frame))).reshape(-1).tolist()
            except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError):
                return None
            except Exception as error:  # libraries have exceptions of their own
                if type(error).__module__.partition(".")[0] in ("xgboost", "lightgbm", "catboost", "_catboost"):
                    return None
                raise

    def frame(self, rows: list[list[Any]]) -> pd.DataFrame:
        """Rows as the owner would have them: numbers as doubles, whole numbers if they all are, else objects."""
        made = {}
        for f, column in enumerate(self.columns):
            values = [row[f] for row in rows]
            made[column.name] = _series(column, values)
        return pd.DataFrame(made)

    @property
    def asked(self) -> Any:
        """What treeproof is given: the library's object, unless that lacks the values of categories."""
        return self.ensemble if self.name == "catboost" else self.model

    @property
    def attacked(self) -> list[Told]:
        """The columns that the attacker may give any value that is known."""
        return [column for column in self.columns if column.kind == "word"][:2]

    @property
    def attacker(self) -> tp.Attacker:
        if self.attacked:
            return tp.Attacker({column.name: tp.ANY for column in self.attacked})
        return tp.Attacker({self.columns[0].name: (-0.25, 0.5)})

    def stable(self, rows: list[list[Any]], labels: list[Any], *, fills: bool = False) -> list[bool] | None:
        """Whether each row keeps its label in all valid rows that the attacker can make of it, by trying all.

        None if he moves numbers. Unless he `fills` them, missing values stay missing.
        """
        if not self.attacked:
            return None
        places = [self.columns.index(column) for column in self.attacked]
        moved = []
        for combination in itertools.product(*[(None, *column.known) for column in self.attacked]):
            for own in rows:
                row = list(own)
                for place, value in zip(places, combination, strict=True):
                    # A missing value stays missing: to fill it in is another power.
                    if value is not None and (fills or (row[place] is not None and row[place] == row[place])):
                        row[place] = value
                moved.append(row)
        new = self.predict(self.frame(moved))
        assert new is not None, "a known value is refused"
        stable = [True] * len(rows)
        for k, (row, label) in enumerate(zip(moved, new, strict=True)):
            if label != labels[k % len(rows)] and not self.breaks(row):
                stable[k % len(rows)] = False
        return stable


def _series(column: Told, values: list[Any]) -> Any:
    if column.kind == "number":
        return np.array(values, dtype=np.float64)
    if column.kind == "truth" and all(isinstance(value, bool) for value in values):
        return np.array(values)
    if column.kind == "whole":
        if all(isinstance(value, int) and abs(value) < 2**63 for value in values):
            return np.array(values, dtype=np.int64)
        if all(isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53) for value in values):
            return np.array(values, dtype=np.float64)
    return pd.Series(values, dtype=object)


def _plain(frame: pd.DataFrame) -> Any:
    return frame


def _as_category(known: dict[str, tuple[Any, ...]]) -> Callable[[pd.DataFrame], Any]:
    def given(frame: pd.DataFrame) -> Any:
        made = frame.copy()
        for name, values in known.items():
            new = [v for v in dict.fromkeys(frame[name]) if v is not None and v == v and v not in values]
            made[name] = pd.Categorical(frame[name], categories=[*values, *new])
        return made

    return given


def _as_text(names: list[str]) -> Callable[[pd.DataFrame], Any]:
    """CatBoost refuses NaN among categories, and takes None's text."""

    def given(frame: pd.DataFrame) -> Any:
        return frame.assign(**{name: frame[name].astype(object) for name in names})

    return given


KINDS = (
    "onehot",
    "onehot-error",
    "ordinal",
    "target",
    "hist-native",
    "lightgbm",
    "xgboost",
    "catboost",
    "numbers",
    "numbers-hist",
    "numbers-one",
)


TAKE_MISSING = ("onehot", "onehot-error", "ordinal", "target", "hist-native", "lightgbm", "xgboost")
"""Those that may have seen words that are missing."""


def subject(kind: str, random: Random) -> Subject:
    """A model of this kind, fitted on a frame of its own."""
    rng = np.random.default_rng(random.randrange(2**32))
    n = 120
    numeric = kind.startswith("numbers")
    known = random.choice(spellings.FAMILIES)
    columns = [Told("amount", "number"), Told("rate", "number")][: 1 if kind == "numbers-one" else 2]
    if not numeric:
        columns.append(Told("kind", "word", known))
        if random.random() < 0.5:
            columns.append(Told("job", "word", random.choice([f for f in spellings.FAMILIES if len(f) < 4])))
        if kind in ("onehot", "onehot-error", "ordinal", "target"):
            columns.append(Told("code", "whole", tuple(sorted(random.choice(spellings.WHOLE)))))
        if kind in ("onehot", "ordinal") and random.random() < 0.5:
            columns.append(Told("flag", "truth", (False, True)))
    random.shuffle(columns)
    rows = [[_drawn(column, rng) for column in columns] for _ in range(n)]
    if kind in TAKE_MISSING and random.random() < 0.3:
        gap = random.choice([None, math.nan])
        place = random.choice([f for f, column in enumerate(columns) if column.kind == "word"])
        for row in random.sample(rows, n // 5):
            row[place] = gap
    classes = random.choice(CLASSES)
    if kind == "xgboost":
        classes = tuple(range(len(classes)))
    secret = {(column.name, value): int(rng.integers(0, 9)) for column in columns for value in column.known}
    signal = [
        sum(secret.get((c.name, v), int(4 * v) if c.kind == "number" else 0) for c, v in zip(columns, row, strict=True))
        for row in rows
    ]
    y = np.array([classes[s % len(classes)] for s in signal])
    empty = Subject(kind, None, None, pd.DataFrame(), y, tuple(columns), classes, _plain)  # type: ignore[arg-type]
    frame = empty.frame(rows)
    words = {c.name: c.known for c in columns if c.kind == "word"}
    as_given = _as_category(words) if kind in ("hist-native", "lightgbm", "xgboost") else _plain
    model = _model(kind, columns, random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(as_given(frame), y)
        more = {"categories": frame} if kind == "catboost" else {}
        ensemble = tp.from_model(model, **more)
    made = Subject(kind, model, ensemble, frame, y, tuple(columns), classes, as_given)
    return replace(made, relations=_relations(made, rows, random))


def _relations(made: Subject, rows: list[list[Any]], random: Random) -> tuple[Related, ...]:
    """None for some; else one or two, which most rows keep and some break."""
    wanted, found = random.choice([0, 1, 2]), list[Related]()
    for _ in range(20 * wanted):
        one = relation(made.columns, random)
        alone, together = ([*map(replace(made, relations=some).breaks, rows)] for some in ((one,), (*found, one)))
        if len(found) < wanted and 0.02 < sum(alone) / len(rows) and sum(together) / len(rows) < 0.6:
            found.append(one)
    return tuple(found)


def _drawn(column: Told, rng: np.random.Generator) -> Any:
    if column.kind == "number":
        return float(rng.choice([rng.normal(), float(rng.integers(-3, 4)), round(rng.normal(), 1)]))
    return column.known[int(rng.integers(len(column.known)))]


def _model(kind: str, columns: list[Told], random: Random) -> Any:
    seed = random.randrange(1000)
    words = [c.name for c in columns if c.kind == "word"]
    coded: Any = [c.name for c in columns if c.kind != "number"]
    if random.random() < 0.3:  # by place; such steps take arrays, too
        coded = [columns.index(c) for c in columns if c.kind != "number"]
    last = random.choice([DecisionTreeClassifier(random_state=seed), RandomForestClassifier(4, random_state=seed)])
    if kind == "numbers":
        return last
    if kind in ("numbers-hist", "numbers-one", "hist-native"):
        return HistGradientBoostingClassifier(
            max_iter=8, min_samples_leaf=1, categorical_features="from_dtype" if words else None, learning_rate=0.7
        )
    if kind == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=8, min_child_samples=1, min_data_per_group=1, cat_smooth=0, min_data_in_bin=1, verbose=-1,
            n_jobs=1, learning_rate=0.7,
        )  # fmt: skip
    if kind == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=6, max_depth=5, n_jobs=1, enable_categorical=True, learning_rate=0.7)
    if kind == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(
            iterations=6, depth=4, cat_features=words, max_ctr_complexity=1, verbose=0, thread_count=1,
            allow_writing_files=False, random_seed=seed, learning_rate=0.7,
        )  # fmt: skip
    unseen: dict[str, Any] = {"handle_unknown": "ignore"}
    encoder: Any = OneHotEncoder(**(unseen if kind == "onehot" else {}), sparse_output=random.random() < 0.5)
    if kind == "ordinal":
        unseen = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
        ways = (unseen, unseen | {"encoded_missing_value": random.choice([-2, 9])}, {})
        encoder = OrdinalEncoder(**random.choice(ways))
    if kind == "target":
        encoder = TargetEncoder(cv=2, random_state=seed)
    steps = ColumnTransformer([("coded", encoder, coded)], remainder="passthrough")
    return make_pipeline(steps, last)


def same(a: Any, b: Any) -> bool:
    """Whether two values are one, NaN included."""
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
