"""The verdicts on a test set, the measures they add up to, and their file."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path, write_whole
from treeproof.model.per_feature import PerFeature, as_number
from treeproof.numbers.doubles import FloatArray
from treeproof.results.markup import change, escape, percent, table
from treeproof.results.verdicts import Bounds, Outcome, Verdict, Witness, short
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import plain_epsilon

FORMAT = "treeproof-verification"
VERSION = 1
FIRST_WITNESSES, MOST_MOVES, LONGEST_ATTACKER = 5, 4, 120
"""What a notebook shows: rows, moves of each, and letters of the attacker."""


@dataclass(frozen=True, eq=False)
class Verification:
    """The verdicts on a test set, and the measures they add up to.

    Arrays have one entry per row; `neighbour` and `attacked` rows hold the witness where `has_witness`.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    stability: npt.NDArray[np.int8]
    resilience_by_epsilon: tuple[npt.NDArray[np.int8], ...]
    """Outcomes per entry of `epsilons`, in that order."""
    epsilons: tuple[Any, ...]
    """The neighbourhoods: a number each, a tuple with one number per feature, or {feature: number}."""
    has_witness: npt.NDArray[np.bool_]
    neighbour: FloatArray
    attacked: FloatArray
    attacked_label: npt.NDArray[Any]
    neighbour_label: npt.NDArray[Any]
    seconds: float
    interrupted: bool = False
    feature_names: tuple[str, ...] | None = None
    model: str = ""
    attacker: Attacker | None = None
    boxes: int = field(default=0)
    fingerprint: str = ""
    """Tells models that predict differently apart."""
    epsilon_names: tuple[str, ...] | None = None
    """What to call the neighbourhoods, where their numbers do not tell people enough."""

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Which rows the model labels correctly."""
        return np.asarray(self.predicted == self.y)

    @property
    def robustness_outcomes(self) -> npt.NDArray[np.int8]:
        """Robust is stable and correct."""
        return np.where(self.correct, self.stability, np.int8(Outcome.REFUTED))

    @property
    def accuracy(self) -> float:
        """The share of rows with the right label."""
        return float(self.correct.mean()) if len(self) else math.nan

    @property
    def robustness(self) -> Bounds:
        """The share of rows that are correct and stay so under every attack."""
        return Bounds.of(self.robustness_outcomes)

    @property
    def resilience(self) -> Bounds | None:
        """The share of rows that are robust and stable in their whole neighbourhood; None if none was asked for.

        With several neighbourhoods, that of the first; see `resilience_at`.
        """
        return Bounds.of(self.resilience_by_epsilon[0]) if self.epsilons else None

    @property
    def resilience_at(self) -> dict[Any, Bounds]:
        """Resilience per ε, for neighbourhoods given as plain numbers."""
        return {
            epsilon: Bounds.of(outcomes)
            for epsilon, outcomes in zip(self.epsilons, self.resilience_by_epsilon, strict=True)
            if isinstance(epsilon, (int, float))
        }

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """One verdict per row."""
        robust = self.robustness_outcomes
        return tuple(
            Verdict(
                Outcome(int(self.stability[i])),
                Outcome(int(robust[i])),
                Outcome(int(self.resilience_by_epsilon[0][i])) if self.epsilons else None,
                self.witness(i),
            )
            for i in range(len(self))
        )

    def witness(self, row: int) -> Witness | None:
        """The counterexample of one row, if there is one."""
        if not self.has_witness[row]:
            return None
        return Witness(
            self.X[row], self.neighbour[row], self.attacked[row], self.neighbour_label[row], self.attacked_label[row]
        )

    def to_frame(self) -> Any:
        """A pandas data frame with one line per row."""
        import pandas as pd

        return pd.DataFrame(self._columns())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """The same as a CSV file, without pandas."""
        columns = self._columns()
        text = io.StringIO(newline="")
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
        write_whole(as_path(path), text.getvalue())

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "label": self.y,
            "predicted": self.predicted,
            "stability": [str(Outcome(int(o))) for o in self.stability],
            "robustness": [str(Outcome(int(o))) for o in self.robustness_outcomes],
        }
        for name, outcomes in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            title = "resilience" if len(self.epsilons) == 1 else f"resilience at {name.removeprefix('ε = ')}"
            columns[title] = [str(Outcome(int(o))) for o in outcomes]
        columns["moved"] = [self._moved(i) for i in range(len(self))]
        return columns

    @property
    def names_of_epsilons(self) -> list[str]:
        """Short names of the neighbourhoods: those given, the number, or the place of one that has many numbers."""
        if self.epsilon_names is not None:
            return [f"ε = {name}" for name in self.epsilon_names]
        many = [k for k, epsilon in enumerate(self.epsilons) if not isinstance(epsilon, (int, float))]
        return [
            f"ε = {epsilon}" if k not in many else "ε per feature" if len(many) == 1 else f"ε{k + 1} per feature"
            for k, epsilon in enumerate(self.epsilons)
        ]

    def _moved(self, row: int) -> str:
        """The witness's moves in words: `income 3.0 → 2.5`."""
        witness = self.witness(row)
        if witness is None:
            return ""
        names = self.feature_names or tuple(map(str, range(self.X.shape[1])))
        return ", ".join(f"{names[f]} {before!r} → {after!r}" for f, (before, after) in witness.moved.items())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The whole result as JSON text, also written to `path` if given; `from_json` reads it back exactly.

        A missing value is null, and so is an infinite ε.
        """
        labels = {name: getattr(self, name) for name in _LABELS}
        content = {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "attacker": None if self.attacker is None else json.loads(self.attacker.to_json()),
            "n_features": self.X.shape[1],
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "boxes": self.boxes,
            "epsilons": [_epsilon_to_json(epsilon) for epsilon in self.epsilons],
            "epsilon_names": None if self.epsilon_names is None else list(self.epsilon_names),
            "label_dtype": np.result_type(*labels.values()).str,
            **{name: [_plain_label(label) for label in array.tolist()] for name, array in labels.items()},
            "stability": self.stability.tolist(),
            "resilience": [outcomes.tolist() for outcomes in self.resilience_by_epsilon],
            "has_witness": self.has_witness.tolist(),
            **{name: _rows_to_json(getattr(self, name)) for name in _ROWS},
        }
        text = json.dumps(content, allow_nan=False)
        if path is not None:
            write_whole(as_path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Verification:
        """The result of a JSON file, or of JSON text that starts with a brace."""
        if isinstance(source, str) and source.lstrip()[:1] == "{":
            text, where = source, "the text"
        else:
            where = str(as_path(source))
            try:
                text = as_path(source).read_text(encoding="utf-8")
            except OSError as error:
                raise InvalidInput(f"cannot read {where}: {error.strerror}") from None
            except UnicodeDecodeError:
                raise InvalidInput(f"{where} is not a text file") from None
        try:
            return cls._from_content(json.loads(text, parse_constant=_refuse_constant))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidInput(f"{where} is not a valid verification: {error}") from None

    @classmethod
    def _from_content(cls, content: Any) -> Verification:
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InvalidInput(f'it lacks "format": "{FORMAT}"')
        if content.get("version") != VERSION:
            raise InvalidInput(f"it has version {content.get('version')!r}; this treeproof reads version {VERSION}")
        if content.keys() != _FIELDS:
            raise InvalidInput(f"unknown or missing fields: {', '.join(sorted(content.keys() ^ _FIELDS))}")
        for name, kinds in _SCALARS.items():
            if type(content[name]) not in kinds:
                raise InvalidInput(f"{name} is {content[name]!r}")
        names, width = content["feature_names"], content["n_features"]
        if names is not None and (len(_list(names, "feature_names", (str,))) != width):
            raise InvalidInput(f"it has {len(names)} feature names for {width} features")
        n = len(_list(content["y"], "y", (str, bool, int, float)))
        epsilons = tuple(_epsilon_from_json(epsilon) for epsilon in _list(content["epsilons"], "epsilons", (dict,)))
        resilience = _list(content["resilience"], "resilience", (list,), len(epsilons))
        called = content["epsilon_names"]
        if called is not None:
            called = tuple(_list(called, "epsilon_names", (str,), len(epsilons)))
        dtype = np.dtype(content["label_dtype"])
        arrays: dict[str, Any] = {name: _rows_from_json(content[name], name, n, width) for name in _ROWS}
        arrays |= {name: _labels_from_json(content[name], name, n, dtype) for name in _LABELS}
        return cls(
            **arrays,
            stability=_outcomes_from_json(content["stability"], "stability", n),
            resilience_by_epsilon=tuple(_outcomes_from_json(row, "resilience", n) for row in resilience),
            epsilons=epsilons,
            epsilon_names=called,
            has_witness=np.array(_list(content["has_witness"], "has_witness", (bool,), n), dtype=np.bool_),
            feature_names=None if names is None else tuple(names),
            **{name: content[name] for name in ("seconds", "interrupted", "boxes", "model", "fingerprint")},
            attacker=None if content["attacker"] is None else Attacker.from_json(json.dumps(content["attacker"])),
        )

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows", f"accuracy {self.accuracy:.3f}", f"robustness {short(self.robustness)}"]
        for name, outcomes in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            parts.append(f"resilience {short(Bounds.of(outcomes))} at {name}")
        if self.interrupted:
            parts.append("interrupted")
        return f"Verification({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the measures, and the first counterexamples."""
        measures = [("accuracy", percent(self.accuracy), "exact"), ("robustness", *_in_words(self.robustness))]
        for name, outcomes in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            measures.append((f"resilience, {name}", *_in_words(Bounds.of(outcomes))))
        of_what = (
            f"{len(self)} rows{', interrupted' if self.interrupted else ''}: {self.model}, {_cut(repr(self.attacker))}"
        )
        parts = [
            f"<p><b>Verification</b> of {escape(of_what)}</p>",
            table(["measure", "share of rows", ""], measures),
        ]
        rows = np.flatnonzero(self.has_witness & self.correct)
        if len(rows):
            first = rows[:FIRST_WITNESSES].tolist()
            parts.append(f"<p>{len(rows)} rows are broken{', the first:' if len(first) < len(rows) else ':'}</p>")
            parts.append(table(["row", "label", "attack", "label after"], [self._witness_in_cells(i) for i in first]))
        return "".join(parts)

    def _witness_in_cells(self, row: int) -> tuple[object, ...]:
        witness = self.witness(row)
        assert witness is not None
        names = self.feature_names or tuple(f"feature {f}" for f in range(self.X.shape[1]))
        moves = [f"{names[f]} {change(*ends)}" for f, ends in witness.moved.items()]
        left_out = len(moves) - MOST_MOVES
        shown = ", ".join(moves[:MOST_MOVES]) + (f" and {left_out} more" if left_out > 0 else "")
        return f"{row}{' near it' if witness.is_nearby else ''}", witness.label, shown, witness.attacked_label


# What a file holds besides scalars; rows are (n, n_features) doubles.
_LABELS = ("y", "predicted", "neighbour_label", "attacked_label")
_ROWS = ("X", "neighbour", "attacked")
_SCALARS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "fingerprint": (str,),
    "attacker": (dict, type(None)),
    "n_features": (int,),
    "seconds": (float, int),
    "interrupted": (bool,),
    "boxes": (int,),
    "label_dtype": (str,),
}
_FIELDS = {
    *("format", "version", "feature_names", "epsilons", "epsilon_names", "stability", "resilience", "has_witness"),
    *_SCALARS,
    *_LABELS,
    *_ROWS,
}


def _refuse_constant(token: str) -> Any:
    raise InvalidInput(f"{token} is no JSON")


def _list(values: Any, name: str, kinds: tuple[type, ...], length: int | None = None) -> list[Any]:
    """The list that a file has under this name, of entries of these types exactly."""
    if not isinstance(values, list):
        raise InvalidInput(f"{name} is not a list")
    if length is not None and len(values) != length:
        raise InvalidInput(f"{name} has {len(values)} entries instead of {length}")
    for value in values:
        if type(value) not in kinds:
            raise InvalidInput(f"{name} holds {value!r}")
    return values


def _epsilon_to_json(epsilon: Any) -> Any:
    spec = PerFeature.of_numbers(epsilon, "epsilon", as_number)
    return spec.to_json(lambda number: None if math.isinf(number) else number)


def _epsilon_from_json(content: Any) -> Any:
    return plain_epsilon(
        PerFeature.from_json(content, "epsilon", lambda value, _: math.inf if value is None else _reach(value))
    )


def _reach(value: Any) -> float:
    number = as_number(value, "epsilon")
    if not 0 <= number < math.inf:
        raise InvalidInput(f"epsilon must be at least 0, got {value!r}")
    return number


def _plain_label(label: Any) -> Any:
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, bool, int, float)):
        raise InvalidInput(f"a label of type {type(plain).__name__} cannot be written as JSON: {plain!r}")
    return plain


def _labels_from_json(values: Any, name: str, n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    kinds = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int), "U": (str,), "O": (str, bool, int, float)}
    if dtype.kind not in kinds:
        raise InvalidInput(f"label_dtype {dtype} is none of labels")
    array = np.array(_list(values, name, kinds[dtype.kind], n), dtype=dtype)
    if array.tolist() != values:
        raise InvalidInput(f"{name} holds labels that do not fit {dtype}")
    return array


def _outcomes_from_json(values: Any, name: str, n: int) -> npt.NDArray[np.int8]:
    for value in _list(values, name, (int,), n):
        Outcome(value)
    return np.array(values, dtype=np.int8)


def _rows_to_json(rows: FloatArray) -> list[list[float | None]]:
    return [[None if math.isnan(value) else value for value in row] for row in rows.tolist()]


def _rows_from_json(values: Any, name: str, n: int, width: int) -> FloatArray:
    kinds = (float, int, type(None))
    rows = np.array(
        [
            [math.nan if value is None else value for value in _list(row, name, kinds, width)]
            for row in _list(values, name, (list,), n)
        ],
        dtype=np.float64,
    ).reshape(n, width)
    if np.isinf(rows).any():
        raise InvalidInput(f"{name} holds a number that is too large for a double")
    return rows


def _in_words(bounds: Bounds) -> tuple[str, str]:
    if bounds.exact:
        return percent(bounds.lower), "exact"
    return f"{percent(bounds.lower)} to {percent(bounds.upper)}", f"{percent(bounds.upper - bounds.lower)} undecided"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ATTACKER else f"{text[:LONGEST_ATTACKER]}…"
