"""The verdicts on a test set, the measures they add up to, and their file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof import __version__
from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES, as_json, as_path, read_text
from treeproof.model.columns import Categories, CodedRows, as_frame, changed_frame, in_own_values
from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.doubles import FloatArray
from treeproof.results.attacker_words import (
    actors_in_words,
    in_vain_in_short,
    in_vain_in_words,
    larger_steps_in_words,
)
from treeproof.results.column_words import joined, quantity
from treeproof.results.markup import escape, percent, table
from treeproof.results.measures import (
    Measures,
    classes_in_words,
    count,
    measures_in_short,
    missing_in_short,
    missing_in_words,
)
from treeproof.results.proof_counts import ProofCounts
from treeproof.results.relation_words import (
    broken_in_short,
    broken_in_words,
    kept_in_words,
    open_in_words,
    relation_in_short,
)
from treeproof.results.row_table import Refuted, RowTable
from treeproof.results.sentences import BROKEN_IN_SHORT, FRAGILE_IN_SHORT
from treeproof.results.tabled import Tabled, frame_or_rows
from treeproof.results.verdicts import Bounds, Outcome, Verdict, Witness, differ, in_percent
from treeproof.results.verification_file import check_measures, content_in, content_of, fields_of
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import as_sets
from treeproof.threat.larger_steps import in_larger_steps
from treeproof.threat.moves import ANY
from treeproof.threat.reached import InVain
from treeproof.threat.relations import Relation
from treeproof.visible import visible

MAX_WITNESSES, MAX_CHARACTERS = 5, 120
"""What a notebook shows at most: counterexamples, and characters of the attacker."""

MAX_SIZES = 4
"""The most columns that the name of a neighbourhood names."""

_WORDS = np.array([str(outcome) for outcome in Outcome], dtype=object)
"""The word for each outcome."""


@dataclass(frozen=True, eq=False)
class Verification(FieldsOnly, Tabled):
    """The verdicts on a test set, and the measures they add up to.

    Arrays have one entry per row.
    """

    rows: RowTable
    """Outcomes and counterexamples."""
    y: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    neighbour_label: npt.NDArray[Any]
    attacked_label: npt.NDArray[Any]
    epsilons: tuple[Any, ...]
    """The neighbourhoods, each a number, a tuple with one number per feature, or {feature: number or values}."""
    seconds: float
    interrupted: bool = False
    feature_names: tuple[str, ...] | None = None
    model: str = ""
    decision: str = ""
    """The cut that decides, in words; "" where it is the library's own."""
    attacker: Attacker | None = None
    fingerprint: str = ""
    """Differs between models that predict differently."""
    epsilon_names: tuple[str, ...] | None = None
    """Names for the neighbourhoods, if their numbers alone say too little."""
    categories: Categories = ()
    """The features that are categories; rows hold their codes."""
    movable: tuple[int, ...] | None = None
    """The columns that the attacker can move, by position; None, as in files that do not say, stands for all."""
    in_vain: InVain | None = None
    """Those of them that no move brings to a threshold of the model, from any row; None in files that do not say."""
    actors: tuple[Any, ...] | None = None
    """The classes whose rows are attacked; the others count by accuracy alone. None stands for all classes."""
    relations: tuple[Relation, ...] = ()
    """What neighbours and attacked rows keep, as it was stated."""
    breakers: tuple[tuple[int, ...], ...] = ()
    """For each of `relations` the rows that break it themselves; see `invalid_rows`."""
    proofs: ProofCounts | None = None
    """How many of its proofs were checked, and by which version; see `check_proofs`."""
    treeproof: str = __version__
    """The version of treeproof that answered; of an earlier one where its result was gone on with."""
    given: Any = None
    """The data frame that was verified, if it is one of pandas; files do not keep it."""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def X(self) -> FloatArray:  # noqa: N802
        """The rows that were verified."""
        return self.rows.X.view(CodedRows)

    @property
    def stability(self) -> npt.NDArray[np.int8]:
        """The Outcome of stability for each row."""
        return self.rows.stability

    @property
    def resilience_by_epsilon(self) -> tuple[npt.NDArray[np.int8], ...]:
        """The Outcomes of resilience for each of `epsilons`, in that order."""
        return tuple(self.rows.resilience)

    @property
    def has_witness(self) -> npt.NDArray[np.bool_]:
        """Which rows have a counterexample."""
        return self.rows.has_witness

    @property
    def neighbour(self) -> FloatArray:
        """The neighbour that each row's counterexample starts from, where it has one."""
        return self.rows.neighbour.view(CodedRows)

    @property
    def attacked(self) -> FloatArray:
        """That neighbour after the attack, for each row that has a counterexample."""
        return self.rows.attacked.view(CodedRows)

    @property
    def boxes(self) -> int:
        """The number of boxes of cells that the search examined."""
        return self.rows.boxes

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Which rows the model labels correctly."""
        return np.asarray(self.predicted == self.y)

    @cached_property
    def has_missing(self) -> npt.NDArray[np.bool_]:
        """Which rows have missing values that stay missing, in columns that the attacker can move."""
        movable = range(self.X.shape[1]) if self.movable is None else self.movable
        filled = set() if self.attacker is None else self.attacker.fillable
        names = self.feature_names or ()
        # A name that the model does not have is one that it spells with underscores.
        filled = {key.replace(" ", "_") if isinstance(key, str) and key not in names else key for key in filled}
        which = [f for f in movable if f not in filled and (not names or names[f] not in filled)]
        return np.asarray(np.isnan(self.X[:, which]).any(axis=1)) & self.is_attacked

    @cached_property
    def is_attacked(self) -> npt.NDArray[np.bool_]:
        """Which rows are attacked at all: those of `actors`."""
        if self.actors is None:
            return np.ones(len(self), dtype=bool)
        return np.array([label in self.actors for label in self.y.tolist()], dtype=bool)

    @cached_property
    def is_broken(self) -> npt.NDArray[np.bool_]:
        """Which rows are right until they are attacked: an attack on the row itself changes its label."""
        refuted = (self.stability == Outcome.REFUTED) & (self.rows.refuted == Refuted.STABILITY)
        return np.asarray(self.correct & refuted)

    @cached_property
    def is_broken_nearby(self) -> npt.NDArray[np.bool_]:
        """Which other rows that are right have a counterexample: some attack changes the label of a neighbour."""
        return np.asarray(self.correct & self.has_witness & ~self.is_broken)

    @property
    def broken(self) -> Any:
        """The rows of `is_broken`, and how: a pandas frame if pandas is there, else a list of rows.

        Each has its number in `row`, its right label, the one after the attack, and in `moved` the value before and
        after of each column that the attacker changed, by name. A frame is indexed like the one that was verified.
        """
        rows = np.flatnonzero(self.is_broken).tolist()
        found = [one for one in map(self.witness, rows) if one is not None]
        columns = {
            "row": rows,
            "label": [one.label for one in found],
            "attacked_label": [one.attacked_label for one in found],
            "moved": [one.moved for one in found],
        }
        return frame_or_rows(columns, rows if self.given is None else self.given.index[rows])

    @cached_property
    def invalid_rows(self) -> npt.NDArray[np.bool_]:
        """Which rows break the relations themselves. Each may stay as it is, or become a row that keeps them."""
        broken = np.zeros(len(self), dtype=bool)
        broken[list(self._broken_relations)] = True
        return broken

    def broken_by(self, row: int) -> tuple[Relation, ...]:
        """The relations that one row breaks itself."""
        return self._broken_relations.get(row, ())

    @cached_property
    def _broken_relations(self) -> dict[int, tuple[Relation, ...]]:
        """The relations that rows break, for those that break any."""
        found: dict[int, tuple[Relation, ...]] = {}
        for relation, rows in zip(self.relations, self.breakers, strict=True):
            for row in rows:
                found[row] = (*found.get(row, ()), relation)
        return found

    @property
    def rows_that_break(self) -> int:
        """The number of rows that break the relations themselves."""
        return int(self.invalid_rows.sum())

    @property
    def broken_in_words(self) -> str | None:
        """How many rows break the relations, with an example; None if all keep them."""
        if not self.invalid_rows.any():
            return None
        first = int(np.argmax(self.invalid_rows))
        example = f"row {first}: {relation_in_short(self.broken_by(first)[0])}"
        return broken_in_words(self.rows_that_break, len(self), example)

    @property
    def assumptions(self) -> list[str]:
        """What a reader must know of the attacker to judge the measures, in sentences; often nothing."""
        said = [] if self.actors is None else [actors_in_words(self.actors)]
        said += _sets_in_words(self.epsilons)
        if len(self) and self.in_vain is not None and self.movable is not None:
            said += [f"{one}." for one in in_vain_in_words(self.in_vain, len(self.movable), self.feature_names)]
        said += self._in_larger_steps
        said += [kept_in_words(self.relations)] * bool(self.relations)
        n_open = int(self.rows.is_open.sum())
        if self.relations and n_open and not self.interrupted:
            said.append(open_in_words(n_open, None if self.attacker is None else self.attacker.power))
        return said + [f"{one}." for one in [self.broken_in_words] if one is not None]

    @property
    def _in_larger_steps(self) -> list[str]:
        """Where ε leads to no neighbour, in sentences."""
        said, width, known = [], self.X.shape[1], [f for f, _ in self.categories]
        for name, epsilon in zip(self.names_of_epsilons, self.epsilons, strict=True):
            if self.attacker is not None and (
                columns := in_larger_steps(self.attacker, epsilon, self.feature_names, width, known)
            ):
                said.append(f"{name} is {larger_steps_in_words(columns, self.feature_names)}.")
        return said

    @property
    def rows_with_missing(self) -> int:
        """The number of such rows. What is proved of them assumes that nobody fills a missing value."""
        return self.measures.rows_with_missing

    @property
    def robustness_outcomes(self) -> npt.NDArray[np.int8]:
        """The Outcome of robustness for each row: robust means stable and correct."""
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
        """The share of rows that are robust and stable in their whole neighbourhood; None if that was not asked for.

        With several neighbourhoods, this is the first one's; see `resilience_at`.
        """
        return Bounds.of(self.resilience_by_epsilon[0]) if self.epsilons else None

    @property
    def resilience_at(self) -> dict[Any, Bounds]:
        """Resilience for each ε, for neighbourhoods given as plain numbers."""
        return {
            epsilon: Bounds.of(outcomes)
            for epsilon, outcomes in zip(self.epsilons, self.resilience_by_epsilon, strict=True)
            if isinstance(epsilon, (int, float))
        }

    @property
    def measures(self) -> Measures:
        """The measures over all rows, with the counts that they come from."""
        return self._measures(slice(None))

    @cached_property
    def by_class(self) -> dict[Any, Measures]:
        """The measures over the rows of each class, by their true label, for the classes that have rows."""
        return {label: self._measures(np.asarray(self.y == label)) for label in _distinct(self.y)}

    def _measures(self, which: slice | npt.NDArray[np.bool_]) -> Measures:
        outcomes = self.robustness_outcomes[which], self.rows.resilience[:, which]
        return Measures(count(self.correct[which], self.has_missing[which], *outcomes), self.epsilons)

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """One verdict per row."""
        known = zip(self.correct.tolist(), self.has_missing.tolist(), strict=True)
        return tuple(self.rows.verdict(i, *both, self.witness(i), self.broken_by(i)) for i, both in enumerate(known))

    @property
    def is_proved(self) -> npt.NDArray[np.bool_]:
        """Which of the rows that are attacked have anything proved about them."""
        outcomes = np.vstack((self.stability, self.rows.resilience))
        return np.asarray(self.is_attacked & (outcomes == Outcome.PROVED).any(axis=0))

    def witness(self, row: int) -> Witness | None:
        """The counterexample of one row, if there is one."""
        if not self.has_witness[row]:
            return None
        rows = np.stack((self.X[row], self.neighbour[row], self.attacked[row]))
        own = in_own_values(rows, self.categories)
        if self.given is not None:
            for f, category in self.categories:
                if category.coded:  # a value that the model never saw has a name, too
                    own[rows[:, f] == rows[0, f], f] = self.given.iat[row, f]
        x, neighbour, attacked = own
        labels = self.neighbour_label[row], self.attacked_label[row]
        return Witness(x, neighbour, attacked, *labels, self.feature_names)

    def attacked_frame(self) -> Any:
        """The rows after the attack, of those that have a counterexample, as a data frame that the model takes.

        What did not move is as you gave it.
        """
        found = self.has_witness
        if self.given is not None:
            moved = differ(self.X[found], self.attacked[found])
            return changed_frame(self.given[found], self.attacked[found], moved, self.categories)
        frame = as_frame(self.attacked[found], self.feature_names or range(self.X.shape[1]), self.categories)
        frame.index = np.flatnonzero(found)
        return frame

    @property
    def row_names(self) -> Any:
        """What each row is called in the data frame that was verified; its place if there is none."""
        return range(len(self)) if self.given is None else self.given.index

    def to_columns(self, *, moved: bool = True) -> dict[str, Any]:
        """The columns of the same table, without pandas; `moved` says whether with the moves of counterexamples."""
        columns: dict[str, Any] = {
            "label": self.y,
            "predicted": self.predicted,
            "stability": _WORDS[self.stability].tolist(),
            "robustness": _WORDS[self.robustness_outcomes].tolist(),
        }
        for name, outcomes in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            title = "resilience" if len(self.epsilons) == 1 else f"resilience at {name.removeprefix('ε = ')}"
            columns[title] = _WORDS[outcomes].tolist()
        if self.relations:
            columns["breaks"] = ["; ".join(map(str, self.broken_by(row))) for row in range(len(self))]
        if moved:
            columns["moved"] = [self._moved(i) if found else "" for i, found in enumerate(self.has_witness.tolist())]
        return columns

    @property
    def names_of_epsilons(self) -> list[str]:
        """Short names of the neighbourhoods: those given, the number, or columns and numbers."""
        return names_of(self.epsilons, self.epsilon_names, self.feature_names)

    def _moved(self, row: int) -> str:
        """The moves of the row's witness in words: `income 3.0 → 2.5`."""
        witness = self.witness(row)
        assert witness is not None
        return ", ".join(f"{name} {before!r} → {after!r}" for name, (before, after) in witness.moved.items())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The whole result as JSON text, also written to `path` if given; `from_json` reads it back exactly."""
        return as_json(content_of(self), path)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Verification:
        """The result in a JSON file, or in JSON text that starts with a brace.

        A file of more than `max_bytes`, or with labels that would take more in memory, is refused.
        """
        if isinstance(source, str) and source.lstrip()[:1] == "{":
            text, where = source, "the text"
        else:
            where = str(as_path(source))
            text = read_text(as_path(source), max_bytes)
        try:
            content = content_in(text)
            result = cls(**fields_of(content, max_bytes))
            check_measures(result, content)
            return result
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if isinstance(error, InvalidInput) and error.argument == "max_bytes":
                raise
            raise InvalidInput(f"{where} is not a valid verification: {error}") from None

    def __repr__(self) -> str:
        parts = measures_in_short(self.measures, self.names_of_epsilons)
        parts += ["ε is less than the step of some columns"] * bool(self._in_larger_steps)
        parts += [visible(self.decision)] * bool(self.decision)
        still = [f for f, _ in self.categories if self.movable is not None and f not in self.movable]
        if still and self.attacker is not None and self.attacker.is_for_all:
            parts.append(f"{len(still)} {'category' if len(still) == 1 else 'categories'} untouched")
        parts += assumed_in_short(self)
        parts += [] if self.proofs is None else [self.proofs.in_short]
        parts += ["interrupted"] * self.interrupted
        return f"Verification({', '.join(parts)}{classes_in_words(self.by_class)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the measures, and the first counterexamples."""
        measures = [("accuracy", percent(self.accuracy), "exact"), ("robustness", *_in_words(self.robustness))]
        for name, outcomes in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            measures.append((f"resilience, {name}", *_in_words(Bounds.of(outcomes))))
        of_what = (
            f"{len(self)} rows{', interrupted' if self.interrupted else ''}: "
            f"{', '.join(filter(None, (self.model, self.decision, _cut(repr(self.attacker)))))}"
        )
        parts = [
            f"<p><b>Verification</b> of {escape(of_what)}</p>",
            table(["measure", "share of rows", ""], measures),
            *self._classes_in_html(),
        ]
        parts += [f"<p>{escape(one)}</p>" for one in self.assumptions]
        if self.rows_with_missing:
            parts.append(f"<p>{escape(missing_in_words(self.rows_with_missing, len(self)))}.</p>")
        return "".join([*parts, *self._witnesses_in_html()])

    def _witnesses_in_html(self) -> list[str]:
        """The first counterexamples: attacks on rows that are right, then those on neighbours of such rows."""
        broken, nearby = (np.flatnonzero(which).tolist() for which in (self.is_broken, self.is_broken_nearby))
        if not (rows := [*broken, *nearby]):
            return []
        said = BROKEN_IN_SHORT.format(broken=len(broken))
        said += FRAGILE_IN_SHORT.format(fragile=len(nearby)) * bool(nearby)
        said += f"; the first {MAX_WITNESSES}" * (len(rows) > MAX_WITNESSES)
        lines = [self._witness_in_cells(row) for row in rows[:MAX_WITNESSES]]
        return [f"<p>{said}:</p>", table(["row", "label", "attack", "label after"], lines)]

    def _classes_in_html(self) -> list[str]:
        """The measures of each class, where there are several."""
        if len(self.by_class) < 2:
            return []
        return [table(*class_table(self.by_class, self.names_of_epsilons))]

    def _witness_in_cells(self, row: int) -> tuple[object, ...]:
        witness = self.witness(row)
        assert witness is not None
        return (
            f"near {row}" if witness.is_nearby else row,
            witness.label,
            witness.in_words(),
            witness.attacked_label,
        )


def assumed_in_short(result: Any) -> list[str]:
    """What measures over rows, of a Verification or a TableSummary, assume of the attacker and the rows."""
    parts: list[str] = []
    if len(result) and result.in_vain is not None and result.movable is not None:
        parts += filter(None, [in_vain_in_short(result.in_vain, len(result.movable))])
    if result.actors is not None:
        parts.append(f"only {', '.join(map(visible, result.actors))} attacked")
    parts += [broken_in_short(result.rows_that_break)] * (result.rows_that_break > 0)
    return parts + [missing_in_short(result.rows_with_missing)] * (result.rows_with_missing > 0)


def class_table(by_class: Mapping[Any, Measures], names: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """The measures of each class as a table to read: its head and its lines. `names` are those of neighbourhoods."""
    head = ["true class", "rows", "accuracy", "robustness", *(f"resilience, {name}" for name in names), "undecided"]
    lines = []
    for label, one in by_class.items():
        shares = [in_percent(bounds) for bounds in (one.robustness, *one.resilience_by_epsilon)]
        lines.append((str(label), f"{one.rows:,}", percent(one.accuracy), *shares, f"{one.open_rows:,}"))
    return head, lines


def _distinct(labels: npt.NDArray[Any]) -> list[Any]:
    """The labels that occur, in order if they have one."""
    found = list(dict.fromkeys(labels.tolist()))
    try:
        return sorted(found)
    except TypeError:
        return found


def names_of(
    epsilons: Sequence[Any], given: Sequence[str] | None, feature_names: Sequence[str] | None = None
) -> list[str]:
    """Short names of neighbourhoods: those given, the number, columns and numbers, or the position if these are many.

    >>> names_of((0.1, {"age": 2.0, 3: 500.0}), None), names_of(((0.0,) * 9, (1.0,) * 9), None)
    (['ε = 0.1', 'ε = age 2, feature 3 500'], ['ε1 per feature', 'ε2 per feature'])
    """
    if given is not None:
        return [f"ε = {name}" for name in given]
    names = [f"ε = {_size(epsilon, feature_names)}" for epsilon in epsilons]
    unclear = [k for k, name in enumerate(names) if name == "ε = " or names.count(name) > 1]
    for k in unclear:
        names[k] = "ε per feature" if len(unclear) == 1 else f"ε{k + 1} per feature"
    return names


def _size(epsilon: Any, feature_names: Sequence[str] | None) -> str:
    """A neighbourhood in a few words, or nothing if it takes more."""
    if isinstance(epsilon, (int, float)):
        return str(epsilon)
    pairs = epsilon.items() if isinstance(epsilon, dict) else enumerate(epsilon)
    sizes = [(f, size) for f, size in pairs if size]
    if len(sizes) > MAX_SIZES:
        return ""
    names = {} if feature_names is None else dict(enumerate(feature_names))
    return ", ".join(
        f"{f if isinstance(f, str) else names.get(f, f'feature {f}')} {_one_size(size)}" for f, size in sizes
    )


def _sets_in_words(epsilons: Sequence[Any]) -> list[str]:
    """Which values of which columns neighbours may have for each other, in a sentence."""
    sizes = {key: size for one in epsilons if isinstance(one, dict) for key, size in one.items()}
    sets = [
        f"{key if isinstance(key, str) else f'feature {key}'} ({_one_size(size)})"
        for key, size in sizes.items()
        if not isinstance(size, float)
    ]
    return [f"In neighbours, values may stand for each other in {joined(sets)}."] if sets else []


def _one_size(size: Any) -> str:
    """A distance, or the values that may stand for each other."""
    if isinstance(size, (int, float)):
        return quantity(size)
    if size == ANY:
        return "any"
    return " and ".join("/".join(visible(value) for value in one.values) for one in as_sets(size))


def _in_words(bounds: Bounds) -> tuple[str, str]:
    return in_percent(bounds), "exact" if bounds.exact else f"{percent(bounds.upper - bounds.lower)} undecided"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
