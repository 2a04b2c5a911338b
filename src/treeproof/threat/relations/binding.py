"""Binding relations to a model: names become features, values codes, and logic conjunctive normal form.

Negations are pushed down to comparisons first. All steps on the way (De Morgan, distribution, merging the literals of
one column) are true in the logic of true, false and unknown, too, so a row breaks the clauses iff it breaks what was
stated.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category, some_of
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.threat.relations.bound import Clause, ColumnLiteral, Linear, Literal, OneHot, Relations, exact
from treeproof.threat.relations.constructors import as_relations
from treeproof.threat.relations.expressions import (
    OPPOSITES,
    AllOf,
    AnyOf,
    Comparison,
    Group,
    Implies,
    Key,
    Member,
    Missing,
    Not,
    Relation,
    Value,
    key_text,
    value_text,
)

MAX_LITERALS = 20_000
"""Of the clauses of one relation."""

MAX_CONSTANT = 10**308
"""That a single column is compared with; there are doubles on both sides of it."""

EVERYWHERE, NOWHERE = Pieces((), (True,)), Pieces((), (False,))


def bind_relations(
    relations: str | Relation | Iterable[str | Relation] | None,
    ensemble: Ensemble,
    steps: Mapping[int, Fraction] | None = None,
) -> Relations:
    """Relations as clauses over the columns of a model; columns with a step stand for the decimals they print as.

    InvalidInput names a relation that does not fit the model, and relations that plainly contradict each other.
    """
    binder = _Binder(ensemble, dict(steps or {}))
    given = as_relations(relations)
    clauses: list[tuple[int, Clause]] = []
    groups: list[tuple[int, OneHot]] = []
    for number, relation in enumerate(given):
        own_clauses, own_groups = binder.bound(relation)
        clauses += ((number, clause) for clause in own_clauses)
        groups += ((number, group) for group in own_groups)
    bound = Relations(
        given,
        tuple(clause for _, clause in clauses),
        tuple(group for _, group in groups),
        tuple(number for number, _ in clauses),
        tuple(number for number, _ in groups),
        tuple(sorted(binder.steps.items())),
    )
    _refuse_shared_columns(bound, ensemble)
    _refuse_contradictions(bound, ensemble)
    return bound


def _conjuncts(relation: Relation) -> Iterator[Relation]:
    """The relations that a relation joins by "and"."""
    if isinstance(relation, AllOf):
        for part in relation.parts:
            yield from _conjuncts(part)
    else:
        yield relation


@dataclass(frozen=True)
class _Binder:
    """What relations are bound to."""

    ensemble: Ensemble
    steps: dict[int, Fraction]

    def bound(self, relation: Relation) -> tuple[list[Clause], list[OneHot]]:
        """The clauses of a relation in conjunctive normal form, and the groups that it joins by "and"."""
        try:
            parts = list(_conjuncts(relation))
            groups = [self._one_hot(part) for part in parts if isinstance(part, Group)]
            rest = _both(self._normal(part, True) for part in parts if not isinstance(part, Group))
        except InvalidInput as error:
            where = f"{relation.origin}: " if relation.origin else ""
            raise InvalidInput(f"{where}relation {str(relation)!r}: {error}") from None
        return [tuple(clause) for clause in rest], groups

    def _one_hot(self, group: Group) -> OneHot:
        """A group of columns."""
        features = tuple(map(self._feature, group.columns))
        for at, f in enumerate(features):
            if f in features[:at]:
                raise InvalidInput(f"it names column {self.ensemble.feature_name(f)} twice")
            category = self._category(f)
            if category is not None and list(category.values) != [0, 1]:
                raise InvalidInput(
                    f"column {self.ensemble.feature_name(f)} is a category of its own, not one of 0 and 1"
                )
        return OneHot(features, group.exactly, group.name)

    # ---- logic ------------------------------------------------------------------------------------------

    def _normal(self, relation: Relation, positive: bool) -> list[_Literals]:
        """The clauses of a relation, or of its opposite."""
        match relation:
            case Not(inner):
                return self._normal(inner, not positive)
            case Group():
                return self._normal(relation.spelled_out, positive)
            case Implies(condition, conclusion):
                sides = (self._normal(condition, not positive), self._normal(conclusion, positive))
                return either(sides) if positive else _both(sides)
            case AllOf(parts):
                return (_both if positive else either)([self._normal(part, positive) for part in parts])
            case AnyOf(parts):
                return (either if positive else _both)([self._normal(part, positive) for part in parts])
        return [made for clause in self._atom(relation, positive) if (made := _merged(clause)) is not None]

    def _atom(self, relation: Relation, positive: bool) -> list[list[Literal]]:
        match relation:
            case Missing(column):
                where, missing = (NOWHERE, True) if positive else (EVERYWHERE, False)
                return [[ColumnLiteral(self._feature(column), where, missing)]]
            case Member(column, values):
                return [[self._member(self._feature(column), values, positive)]]
            case Comparison(_, operator, _):
                return self._comparison(relation, operator if positive else OPPOSITES[operator])
        raise AssertionError(f"no relation: {relation!r}")

    def _comparison(self, relation: Comparison, operator: str) -> list[list[Literal]]:
        difference = relation.difference
        terms: dict[int, Fraction] = {}
        for key, factor in difference.terms:
            f = self._feature(key)
            if f in terms:
                raise InvalidInput(f"it names column {self.ensemble.feature_name(f)} in two ways; name it in one")
            terms[f] = factor
        bound = -difference.constant
        if len(terms) == 1:
            ((f, factor),) = terms.items()
            if factor < 0:
                operator = operator.translate(str.maketrans("<>", "><"))
            return [[self._one_column(f, operator, bound / factor)]]
        for f in terms:
            self._check_number(f, "a category has no order and no sum; compare it with one of its values")
        less, more = Linear.of(terms, bound), Linear.of({f: -factor for f, factor in terms.items()}, -bound)
        below = Linear(less.terms, less.bound, strict=True)
        above = Linear(more.terms, more.bound, strict=True)
        cases: dict[str, list[list[Literal]]] = {
            "<=": [[less]],
            "<": [[below]],
            ">=": [[more]],
            ">": [[above]],
            "==": [[less], [more]],
            "!=": [[below, above]],
        }
        return cases[operator]

    # ---- one column -------------------------------------------------------------------------------------

    def _one_column(self, f: int, operator: str, constant: Fraction) -> ColumnLiteral:
        if operator in ("==", "!="):
            return self._member(f, (constant,), operator == "==")
        self._check_number(f, f"a category has no order, so {operator} says nothing; use == or in")
        before, upto = self._ends(f, constant)
        cut = before if operator in ("<", ">=") else upto
        return ColumnLiteral(f, Pieces((cut,), (True, False) if operator in ("<", "<=") else (False, True)))

    def _member(self, f: int, values: tuple[Value, ...], positive: bool) -> ColumnLiteral:
        """That a column has one of these values, or none of them."""
        category = self._category(f)
        if category is not None and category.coded:
            inside = np.zeros(category.n_codes, dtype=bool)
            inside[[self._code(f, category, value) for value in values]] = True
            return ColumnLiteral(f, Pieces.of_codes(inside == positive))
        cuts: list[float] = []
        for number in sorted(self._number(f, value) for value in values):
            cuts += self._ends(f, number)
        sides = np.arange(len(cuts) + 1) % 2 == int(positive)
        return ColumnLiteral(f, Pieces.between(np.array(cuts), sides))

    def _ends(self, f: int, constant: Fraction) -> tuple[float, float]:
        """The last double of a column below a constant, and the last that is not above it."""
        if abs(constant) > MAX_CONSTANT:
            raise InvalidInput(f"{value_text(constant)} is beyond the numbers that a column can hold")
        near = constant.numerator / constant.denominator
        if f not in self.steps:
            return math.nextafter(near, -math.inf), near
        # Doubles and the decimals that they print as have the same order.
        while exact(near, True) > constant:
            near = math.nextafter(near, -math.inf)
        while exact(math.nextafter(near, math.inf), True) <= constant:
            near = math.nextafter(near, math.inf)
        return (math.nextafter(near, -math.inf) if exact(near, True) == constant else near), near

    # ---- names and values -------------------------------------------------------------------------------

    def _feature(self, key: Key) -> int:
        ensemble = self.ensemble
        names = ensemble.feature_names
        if isinstance(key, int):
            if key >= ensemble.n_features:
                raise InvalidInput(f"there is no column {key}; the model has columns 0 to {ensemble.n_features - 1}")
            return key
        if names is None:
            raise InvalidInput(
                f"there is no column {key!r}: the model has no names for its columns; give positions, as in [0] <= [1]"
            )
        name = ensemble.own_spelling(key)
        if name in names:
            return names.index(name)
        near = difflib.get_close_matches(name, names, n=3)
        raise InvalidInput(f"the model has no column {key!r}; it has {some_of(names, near)}{self._hint(key)}")

    def _hint(self, name: str) -> str:
        """What a name that is none may have been meant for: part of a longer one, or a text without quotes."""
        for known in self.ensemble.feature_names or ():
            if known.startswith(name) and key_text(known) != known:
                return f"; in a relation, write {key_text(known)}"
        if name.lower() in ("nan", "na", "none", "null"):
            return "; whether a value is missing is said as in income is missing, or income is present"
        if any(name in category.values for _, category in self.ensemble.categories):
            return f"; if it is a value, write {value_text(name)}"
        return ""

    def _category(self, f: int) -> Category | None:
        return dict(self.ensemble.categories).get(f)

    def _check_number(self, f: int, why: str) -> None:
        if self._category(f) is not None:
            raise InvalidInput(f"column {self.ensemble.feature_name(f)} is a category: {why}")

    def _number(self, f: int, value: Value) -> Fraction:
        if isinstance(value, str):
            raise InvalidInput(f"column {self.ensemble.feature_name(f)} holds numbers, but {value!r} is a text")
        return Fraction(value)

    def _code(self, f: int, category: Category, value: Value) -> int:
        plain = value
        if isinstance(value, Fraction):
            plain = int(value) if value.denominator == 1 else float(value)  # type: ignore[assignment]
        code = category.code_of(plain)
        if 0 <= code < len(category.values):
            return int(code)
        known = category.values
        texts = difflib.get_close_matches(str(plain), list(map(str, known)), n=3)
        near = [each for each in known if str(each) in texts]
        raise InvalidInput(
            f"column {self.ensemble.feature_name(f)} has no value {plain!r}; it has {some_of(known, near)}"
        )


# ---- clauses ------------------------------------------------------------------------------------------------

_Literals = list[Literal]


def _merged(literals: Iterable[Literal]) -> _Literals | None:
    """A clause with one literal for each column; None if it is always true."""
    columns: dict[int, ColumnLiteral] = {}
    linear: dict[tuple[tuple[int, Fraction], ...], Linear] = {}
    for literal in literals:
        if isinstance(literal, ColumnLiteral):
            f = literal.feature
            columns[f] = columns[f].united(literal) if f in columns else literal
            if columns[f].is_certain:
                return None
        else:
            other = linear.get(literal.terms, literal)
            # The weaker of two bounds: the higher one, or the one that takes its end.
            linear[literal.terms] = max(literal, other, key=lambda one: (one.bound, not one.strict))
    possible = [literal for literal in columns.values() if literal.takes_values or literal.missing]
    return [*possible, *linear.values()]


def _both(sides: Iterable[list[_Literals]]) -> list[_Literals]:
    """The clauses of all sides, each once."""
    found = {frozenset(clause): clause for side in sides for clause in side}
    _check_size(sum(map(len, found.values())))
    return list(found.values())


def either(sides: Iterable[list[_Literals]]) -> list[_Literals]:
    """Every choice of a clause from each side, joined."""
    joined: list[_Literals] = [[]]
    for side in sides:
        found: dict[frozenset[Literal], _Literals] = {}
        size = 0
        for one in joined:
            for two in side:
                clause = _merged([*one, *two])
                if clause is not None and frozenset(clause) not in found:
                    found[frozenset(clause)] = clause
                    size += len(clause)
                    _check_size(size)
        joined = list(found.values())
    return joined


def _check_size(literals: int) -> None:
    if literals > MAX_LITERALS:
        raise InvalidInput(
            f"it takes more than {MAX_LITERALS:,} comparisons once 'or' stands inside of 'and'; "
            "state it as several relations, or with fewer 'and' below 'or'"
        )


# ---- what can be seen at once -------------------------------------------------------------------------------


def _refuse_shared_columns(relations: Relations, ensemble: Ensemble) -> None:
    owner: dict[int, Relation] = {}
    for number, group in zip(relations.group_origin, relations.groups, strict=True):
        for f in group.features:
            if f in owner:
                raise InvalidInput(
                    f"column {ensemble.feature_name(f)} is in two groups, {str(owner[f])!r} and "
                    f"{str(relations.given[number])!r}; a column belongs to one"
                )
        owner |= dict.fromkeys(group.features, relations.given[number])


def _refuse_contradictions(relations: Relations, ensemble: Ensemble) -> None:
    """Refuses relations that leave no value to a column, as far as each is about that column alone."""
    stated: dict[int, list[tuple[ColumnLiteral, Relation]]] = {}
    parts = list(zip(relations.clause_origin, relations.clauses, strict=True))
    for number, group in zip(relations.group_origin, relations.groups, strict=True):
        parts += ((number, clause) for clause in group.own_values)
    for number, clause in parts:
        relation = relations.given[number]
        if not clause:
            raise InvalidInput(f"relation {str(relation)!r} holds for no row")
        literal = clause[0]
        if len(clause) == 1 and isinstance(literal, ColumnLiteral):
            earlier = stated.setdefault(literal.feature, [])
            _refuse_contradiction(earlier, literal, relation, ensemble)
            earlier.append((literal, relation))


def _refuse_contradiction(
    earlier: list[tuple[ColumnLiteral, Relation]], literal: ColumnLiteral, relation: Relation, ensemble: Ensemble
) -> None:
    f = literal.feature
    left = literal
    for other, _ in earlier:
        left = left.intersected(other)
    if left.takes_values:
        return
    may_be_missing = left.missing and bool(ensemble.may_be_missing[f])
    # A value that must be missing is one thing; numbers that exclude each other are a mistake, missing or not.
    if may_be_missing and not all(other.takes_values for other in (literal, *(other for other, _ in earlier))):
        return
    rivals = [said for other, said in earlier if not other.intersected(literal).takes_values][:1]
    texts = dict.fromkeys(str(said) for said in [*(rivals or [said for _, said in earlier]), relation])
    raise InvalidInput(f"no value of column {ensemble.feature_name(f)} satisfies {' and '.join(map(repr, texts))}")
