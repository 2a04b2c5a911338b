"""Checks rows of a result: their labels, their counterexamples, and what proves them; and what it says of all rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import permutations
from typing import Any

from treeproof.check.evidence import Reach, is_same
from treeproof.check.model_file import Model, categories_of
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import PROVED, Checked, Question, check_rows, is_inside, key_of, readable
from treeproof.check.rules import Rejected

REFUTED, UNKNOWN = 1, 2
ITSELF = {"all": 0.0}
"""The neighbourhood of a row alone."""
NO_PROOFS = "there is no file of proofs"
BARE = "its counterexample does not show that it is refuted in the neighbourhoods"
_KINDS: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "f": {float, int},
    "U": {str},
    "O": {str, bool, int, float},
}
"""What labels are, by the letter of numpy's name for their type."""


def check_result(question: Question, proofs: ProofFile | None, rows: Iterable[int]) -> Iterator[tuple[int, Checked]]:
    """Checks everything that a result says about each of these rows."""
    evidence = Evidence(question)
    for row in rows:
        found = Checked()
        try:
            known = evidence.check(row)
        except Rejected as error:
            found.rejected[row] = str(error)
        else:
            if proofs is not None:
                found.add(next(check_rows(question, proofs, [row]))[1])
            elif question.proved(row):
                found.unchecked[row] = NO_PROOFS
            found.counterexamples += question.result["refuted"][row] is not None
            bare = [which for which, said in enumerate(question.said(row)) if said == REFUTED != known[which]]
            if bare and row not in found.rejected:
                found.unchecked[row] = f"{BARE} {bare}: ask about one of them at a time"
            found.outcomes[row] = known if row not in found.rejected else [UNKNOWN] * len(known)
        yield row, found


class Evidence:
    """What a result says about rows, but for what only a proof can show."""

    @readable("the result")
    def __init__(self, question: Question) -> None:
        self._question, self._result = question, question.result
        self._reach = question.views.reach
        self._around = [self._reach.around(ITSELF), *question.views.around]
        self._broken = [frozenset(rows) for rows in self._result["broken"]]
        self._is_inside = lru_cache(None)(lambda *pair: is_inside(question.views.sizes, *pair))
        self._agree = lru_cache(None)(self._do_agree)

    @readable("the result")
    def check(self, row: int) -> list[int]:
        """What is known of the row and of each neighbourhood without a proof; Rejected if something does not hold."""
        question, result = self._question, self._result
        question.check_said(row)
        x, is_correct, said = question.row(row), question.is_correct(row), question.said(row)
        if is_correct and not self._agree(*said):
            raise Rejected("what it is called in a neighbourhood is not what it is called in a larger or smaller one")
        if list(self._reach.relations.broken(x)) != [number for number, rows in enumerate(self._broken) if row in rows]:
            raise Rejected("it breaks other relations than the result says")
        rows = [question.row(row, name) for name in ("neighbour", "attacked")]
        for name, one in zip(("neighbour_label", "attacked_label"), rows, strict=True):
            if question.model.label(one) != question.class_of(result[name][row]):
                raise Rejected(f"the model gives what is there another {name}")
        by_label = [] if is_correct else [REFUTED] * (len(said) - 1)
        if not question.is_attacked(row):
            by_label = [PROVED, *(by_label or [PROVED] * (len(said) - 1))]
            if said != by_label or result["refuted"][row] is not None:
                raise Rejected("it is not attacked, but does not count by its label alone")
        elif not is_correct and said[1:] != by_label:
            raise Rejected("it has the wrong label, but is not called refuted in all neighbourhoods")
        refuted = self._refuted(row, x, *rows)
        if question.is_attacked(row):
            by_label = [UNKNOWN, *(by_label or [UNKNOWN] * (len(said) - 1))]
        return [REFUTED if which in refuted else known for which, known in enumerate(by_label)]

    def _do_agree(self, *said: int) -> bool:
        """Whether all is proved within what is proved, and refuted around what is refuted."""
        pairs = permutations(enumerate(said), 2)
        odd = (pair for pair in pairs if pair[0][1] != pair[1][1] and (pair[0][1] == REFUTED or pair[1][1] == PROVED))
        return not any(self._is_inside(small, large) for (small, _), (large, _) in odd)

    def _refuted(self, row: int, x: list[float], near: list[float], attacked: list[float]) -> Collection[int]:
        """Of what a counterexample holds: 0 is the row itself, k its k-th neighbourhood."""
        said, what = self._question.said(row), self._result["refuted"][row]
        called = [which for which, one in enumerate(said) if one == REFUTED]
        if what is None:
            if not all(is_same(x, other) for other in (near, attacked)):
                raise Rejected("it has rows of a counterexample that it does not have")
            needs_one = called if self._question.is_correct(row) else called[: said[0] == REFUTED]
            if needs_one:
                raise Rejected("it has no counterexample that holds")
            return ()
        asked = [0] if what == "stability" else called if what == -1 else [what + 1]
        is_told = said[0] != REFUTED if what != "stability" else len(called) == len(said)
        if not (is_told and {*asked} <= {*called} and changes_label(self._question, near, attacked)):
            raise Rejected("it has no counterexample that holds, or one of something else")
        found = [which for which, each in enumerate(self._around) if self._reach.holds(each, x, near, attacked)]
        if any(said[which] != REFUTED and (which == 0 or said[which] == PROVED) for which in found):
            raise Rejected("it has a counterexample where it is not called refuted")
        # Of neighbourhoods that lie in each other, a counterexample is in the smallest that is called refuted.
        shown, missed = {*asked} & {*found}, {*called} - {*found} if self._question.is_correct(row) else ()
        if not shown or any(self._is_inside(which, one) for which in missed for one in shown):
            raise Rejected("it has no counterexample that holds")
        return {*called} & {*found}


def changes_label(question: Any, near: list[float], attacked: list[float]) -> bool:
    """Whether an attack changes a label, to one that the attacker wants if it has a goal."""
    before, after = question.model.label(near), question.model.label(attacked)
    return before not in question.goal and after in question.goal if question.goal else before != after


# --- what is said of all rows ----------------------------------------------------------------------------------------


@readable("the result")
def check_told(question: Question) -> None:
    """Rejects what a result says of all its rows, unless it is what they add up to."""
    result, model, n = question.result, question.model, len(question.result["X"])
    reach, where = question.views.reach, result["broken"]
    if len(where) != len(result["relations"]) or any(rows != sorted({*rows} & {*range(n)}) for rows in where):
        raise Rejected("the result names rows that break relations, and are none")
    columns = _columns_told(question, reach)
    moved = range(model.n_features) if result["movable"] is None else columns["movable"]
    filled = reach.fillable
    missing = [
        question.is_attacked(row) and any(x[f] is None for f in moved if f not in filled)
        for row, x in enumerate(result["X"])
    ]
    found: dict[str, Any] = {
        **{name: rows for name, rows in columns.items() if result[name] is not None},
        "decision": decided_in(model),
        "categories": [{"feature": f, **each} for f, each in categories_of(model.content).items()],
        "rows_with_missing": sum(missing),
    }
    for name, value in found.items():
        if not _is_equal(result[name], value):
            raise Rejected(f"{name} of the result is not what follows from the rest")
    by_class = {key_of(one["class"]): one for one in result["by_class"]}
    labels = {key_of(label): label for label in result["y"]}
    if len(by_class) < len(result["by_class"]) or by_class.keys() != labels.keys():
        raise Rejected("by_class of the result names other classes than its rows have")
    if not all(_is_equal(by_class[key], _measures_of(question, label, missing)) for key, label in labels.items()):
        raise Rejected("by_class of the result is not what its rows add up to")
    if len(set(map(key_of, result["actors"] or ()))) < len(result["actors"] or ()):
        raise Rejected("the result names an actor twice")
    names, proofs = result["epsilon_names"], result.get("proofs")
    if names is not None and len(names) != len(result["epsilons"]):
        raise Rejected("the result has names of other neighbourhoods")
    if proofs and sum(proofs[name] for name in ("checked", "rejected", "unchecked")) != len(question.proved_rows):
        raise Rejected("proofs of the result are not about as many rows as it calls proved")
    kind = re.fullmatch(r"[<>|=]?([biufUO])\d{0,9}", result["label_dtype"])
    every = (result[name] for name in ("y", "predicted", "neighbour_label", "attacked_label"))
    if kind is None or not {type(label) for labels in every for label in labels} <= _KINDS[kind[1]]:
        raise Rejected("label_dtype of the result is not the type of its labels")


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two things are the same in a file, where true is not 1."""
    first, second = (json.dumps(each, sort_keys=True, default=repr) for each in (one, other))
    return first == second


def decided_in(model: Model) -> str:
    """The cut in words, as the model's file says it."""
    said = model.content.get("decided")
    return "" if said is None else f"label {model.content['classes'][said['class']]!r} {said['where']}"


def _columns_told(question: Question, reach: Reach) -> dict[str, list[int]]:
    """The columns that the attacker can move, and those of them that lead to no threshold."""
    cuts, result = question.model.cuts, question.result
    movable = [f for f in range(question.model.n_features) if reach.may_move(f)]
    rows = [question.row(row) for row in range(len(result["X"])) if question.is_attacked(row)]
    # What is said of members of groups that somebody names is taken as it is: they change together.
    still = [
        f
        for f in movable
        if cuts[f]
        and (
            f in (result["unreached"] or ())
            if reach.is_named(f, question.views.around)
            else not any(reach.spans_a_cut(f, x, cuts[f], question.views.around) for x in rows)
        )
    ]
    return {"movable": movable, "unreached": still, "untested": [f for f in movable if not cuts[f]]}


def _measures_of(question: Question, label: Any, missing: list[bool]) -> dict[str, Any]:
    """What the rows of a class add up to."""
    rows = [row for row, one in enumerate(question.result["y"]) if key_of(one) == key_of(label)]
    outcomes = [_robust_first(question, row, question.said(row)) for row in rows]
    shares = [[low / len(rows), high / len(rows)] for low, high in _bounds(outcomes)]
    return {
        "class": label,
        "rows": len(rows),
        "accuracy": sum(map(question.is_correct, rows)) / len(rows),
        "robustness": shares[0],
        "resilience": shares[1:],
        "open_rows": sum(UNKNOWN in each for each in outcomes),
        "rows_with_missing": sum(missing[row] for row in rows),
    }


def _robust_first(question: Question, row: int, outcomes: list[int]) -> list[int]:
    """The outcomes of robustness and resilience."""
    return outcomes if question.is_correct(row) else [REFUTED, *outcomes[1:]]


def _bounds(outcomes: list[list[int]]) -> list[tuple[int, int]]:
    """Per measure how many rows have it at least, and at most."""
    return [(each.count(PROVED), len(each) - each.count(REFUTED)) for each in zip(*outcomes, strict=True)]


def in_words(question: Question, found: Checked, rows: Collection[int]) -> list[str]:
    """What follows for these rows from what was checked, in lines; what was not checked may go either way."""
    if not rows or "refuted" not in question.result:
        return []
    none, proved, result = [UNKNOWN] * (1 + len(question.result["epsilons"])), {*found.checked}, question.result
    each = []
    for row in rows:
        known = zip(question.said(row), found.outcomes.get(row, none), strict=True)
        each.append((row, [PROVED if said == PROVED and row in proved else one for said, one in known]))
    names = result["epsilon_names"] or map(json.dumps, result["epsilons"])
    called = ["stability", "robustness", *(f"resilience at {name[:60]}" for name in names)]
    bounds = _bounds([one for _, one in each])[:1] + _bounds([_robust_first(question, *one) for one in each])
    right, n = sum(map(question.is_correct, rows)), len(rows)
    shares = zip(["accuracy", *called], [(right, right), *bounds], strict=False)  # names may be too few, or too many
    return [f"{name}: {_ends(low, high)} of {n} rows, {_ends(low / n, high / n)}" for name, (low, high) in shares]


def _ends(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
