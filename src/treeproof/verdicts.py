"""What verification answers: three-valued outcomes, their evidence, and measures as bounds."""

from __future__ import annotations

import enum
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
from treeproof.intervals import FloatArray

FORMAT = "treeproof-verification"
VERSION = 1


class Outcome(enum.IntEnum):
    """The answer to "does it hold?": proved, refuted by a counterexample, or open because time ran out."""

    PROVED = 0
    REFUTED = 1
    UNKNOWN = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Bounds:
    """A share of rows that is certainly at least `lower` and at most `upper`; equal if every row was decided.

    >>> Bounds(0.75, 0.75), Bounds(0.5, 0.75)
    (Bounds(0.75), Bounds(0.5 … 0.75))
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, outcomes: npt.NDArray[np.int8]) -> Bounds:
        """The share of proved rows; open ones may go either way."""
        n = max(1, len(outcomes))
        lower = int((outcomes == Outcome.PROVED).sum()) / n
        return cls(lower, (len(outcomes) - int((outcomes == Outcome.REFUTED).sum())) / n)

    @property
    def exact(self) -> bool:
        """Whether every row was decided."""
        return self.lower == self.upper

    def __float__(self) -> float:
        if not self.exact:
            raise ValueError(f"not decided: between {self.lower} and {self.upper}; use .lower or .upper")
        return self.lower

    def __repr__(self) -> str:
        return f"Bounds({self.lower})" if self.exact else f"Bounds({self.lower} … {self.upper})"


@dataclass(frozen=True, eq=False)
class Witness:
    """A counterexample: the row x, a neighbour of it, and that neighbour after an attack, with another label.

    For a row that is not even stable the neighbour is x itself.
    """

    x: FloatArray
    neighbour: FloatArray
    attacked: FloatArray
    label: Any
    """The label of the neighbour."""
    attacked_label: Any
    """The label after the attack."""

    @property
    def moved(self) -> dict[int, tuple[float, float]]:
        """Per feature that the attacker changed, its value before and after."""
        same = (self.neighbour == self.attacked) | (np.isnan(self.neighbour) & np.isnan(self.attacked))
        return {int(f): (float(self.neighbour[f]), float(self.attacked[f])) for f in np.flatnonzero(~same)}


@dataclass(frozen=True)
class Verdict:
    """What is known of one row."""

    stability: Outcome
    robustness: Outcome
    resilience: Outcome | None
    """None where no neighbourhood was asked for."""
    witness: Witness | None
    """The counterexample to stability if there is one, else to resilience."""


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
    """The neighbourhoods as the user gave them."""
    has_witness: npt.NDArray[np.bool_]
    neighbour: FloatArray
    attacked: FloatArray
    attacked_label: npt.NDArray[Any]
    neighbour_label: npt.NDArray[Any]
    seconds: float
    interrupted: bool = False
    feature_names: tuple[str, ...] | None = None
    model: str = ""
    attacker: str = ""
    boxes: int = field(default=0)

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

        columns = {
            "label": self.y,
            "predicted": self.predicted,
            "stability": [str(Outcome(int(o))) for o in self.stability],
            "robustness": [str(Outcome(int(o))) for o in self.robustness_outcomes],
        }
        for epsilon, outcomes in zip(self.epsilons, self.resilience_by_epsilon, strict=True):
            name = "resilience" if len(self.epsilons) == 1 else f"resilience at {epsilon}"
            columns[name] = [str(Outcome(int(o))) for o in outcomes]
        columns["moved"] = [self._moved(i) for i in range(len(self))]
        return pd.DataFrame(columns)

    def _moved(self, row: int) -> str:
        """The witness's moves in words: `income 3.0 → 2.5`."""
        witness = self.witness(row)
        if witness is None:
            return ""
        names = self.feature_names or tuple(map(str, range(self.X.shape[1])))
        return ", ".join(f"{names[f]} {before!r} → {after!r}" for f, (before, after) in witness.moved.items())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The whole result as JSON text, also written to `path` if given; `from_json` reads it back exactly."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "attacker": self.attacker,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "boxes": self.boxes,
            "epsilons": [_plain(epsilon) for epsilon in self.epsilons],
            "label_dtype": self.y.dtype.str if self.y.dtype.kind != "O" else "str",
            **{name: _plain(getattr(self, name)) for name in _ARRAYS},
            "resilience": [outcomes.tolist() for outcomes in self.resilience_by_epsilon],
        }
        text = json.dumps(content)
        if path is not None:
            write_whole(as_path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Verification:
        """The result of a JSON file, or of JSON text that starts with a brace."""
        try:
            is_text = isinstance(source, str) and source.lstrip()[:1] == "{"
            content = json.loads(source if is_text else as_path(source).read_text(encoding="utf-8"))  # type: ignore[arg-type]
            if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
                raise InvalidInput(f"it is no treeproof verification of version {VERSION}")
            return cls._from_content(content)
        except OSError as error:
            raise InvalidInput(f"cannot read {source}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInput(f"not a valid verification: {error}") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Verification:
        labels = np.dtype(content["label_dtype"])
        n = len(content["y"])
        arrays: dict[str, Any] = {}
        for name, dtype in _ARRAYS.items():
            array = np.array(content[name], dtype=labels if dtype is None else dtype)
            if len(array) != n:
                raise InvalidInput(f"{name} has {len(array)} entries for {n} rows")
            arrays[name] = array.reshape(n, -1) if name in ("X", "neighbour", "attacked") else array
        names = content["feature_names"]
        return cls(
            **arrays,
            resilience_by_epsilon=tuple(np.array(row, dtype=np.int8) for row in content["resilience"]),
            epsilons=tuple(content["epsilons"]),
            feature_names=None if names is None else tuple(names),
            **{name: content[name] for name in ("seconds", "interrupted", "boxes", "model", "attacker")},
        )

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows", f"accuracy {self.accuracy:.3f}", f"robustness {_short(self.robustness)}"]
        for epsilon, outcomes in zip(self.epsilons, self.resilience_by_epsilon, strict=True):
            parts.append(f"resilience {_short(Bounds.of(outcomes))} at ε = {epsilon}")
        if self.interrupted:
            parts.append("interrupted")
        return f"Verification({', '.join(parts)})"


# The arrays of a Verification and their types in JSON; None is the type of the labels.
_ARRAYS: dict[str, Any] = {
    "X": np.float64,
    "y": None,
    "predicted": None,
    "stability": np.int8,
    "has_witness": np.bool_,
    "neighbour": np.float64,
    "attacked": np.float64,
    "neighbour_label": None,
    "attacked_label": None,
}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _short(bounds: Bounds) -> str:
    return f"{bounds.lower:.3f}" if bounds.exact else f"{bounds.lower:.3f} to {bounds.upper:.3f}"
