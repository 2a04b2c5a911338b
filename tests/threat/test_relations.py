"""Relations: their language and its refusals; clauses against the literal evaluator, on boundaries too."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.judged_relations import satisfies, truth_of
from treeproof.importers import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.threat.relations import (
    ColumnLiteral,
    Linear,
    Relation,
    bind_relations,
    bound,
    parse_relation,
    read_relations,
)
from treeproof.threat.relations.expressions import (
    AllOf,
    AnyOf,
    Comparison,
    Group,
    Implies,
    Key,
    Member,
    Missing,
    Not,
    Sum,
    Value,
)

NAN = math.nan
CENTS = Fraction(1, 100)


def model(names: list[str] | None, *, n: int | None = None, **settings: Any) -> tp.Ensemble:
    """A model of one leaf with these columns."""
    builder = EnsembleBuilder(
        n_features=n or len(names or ()), classes=["no", "yes"], feature_names=names, **settings
    )  # fmt: skip
    builder.add_tree(feature=[-1], threshold=[0], left=[-1], right=[-1], scores=[[1, 0]])
    return builder.build()


HOUSING = Category(("own", "rent", "free"), unseen=True)
CODES = Category((0, 1, 4), coded=False, unseen=True)
BANK = model(
    ["max_30d", "max_12m", "housing", "total", "capital-gain", "code", "flag"],
    handles_missing=True,
    no_missing=[4],
    categories={2: HOUSING, 5: CODES, 6: Category((False, True), dtype="bool")},
)


# ---- the language -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("max_30d<=max_12m", "max_30d <= max_12m"),
        ("a + 2*b - c/4 <= 100", "a + 2*b - 0.25*c <= 100"),
        ("rent + food == total", "rent + food == total"),
        ("housing == 'own'", "housing == 'own'"),
        ('"own" != housing', "housing != 'own'"),
        ("housing in ('own', \"rent\")", "housing in ('own', 'rent')"),
        ("housing not in ('own', 'it''s')", "housing not in ('own', 'it''s')"),
        ("income is missing", "income is missing"),
        ("income is not missing", "income is present"),
        ("income is not present", "income is missing"),
        ("loans != 0", "loans != 0"),
        ("0 <= a <= b", "0 <= a and a <= b"),
        ("a in (3)", "a == 3"),
        ("a in (1, -2.50)", "a in (1, -2.5)"),
        ("flag == True", "flag == True"),
        ("-(a - b)*2/3 < 1e-30", "-2*a/3 + 2*b/3 < 1e-30"),
        ("`capital-gain` + `a``b` > .5", "`capital-gain` + `a``b` > 0.5"),
        ("[0] + [12] <= 1e30", "[0] + [12] <= 1e30"),
        ("a.b <= größe", "a.b <= größe"),
        ("missing <= name", "missing <= name"),
        ("`in` == 1", "`in` == 1"),
        ("not a <= b and c < 1 or d > 1", "(not a <= b and c < 1) or d > 1"),
        ("not (a <= b or c < 1)", "not (a <= b or c < 1)"),
        ("implies(a == 0, b == 0 or c == 0)", "implies(a == 0, b == 0 or c == 0)"),
        ("any_of(a == 0, all_of(b == 0, not_(c == 0)))", "a == 0 or (b == 0 and not c == 0)"),
        ("one_of(a, `b c`, [3], name='x')", "one_of(a, `b c`, [3], name='x')"),
        ("at_most_one(name, b)  # why", "at_most_one(name, b)"),
    ],
)
def test_texts_are_parsed_and_shown(text: str, shown: str) -> None:
    relation = parse_relation(text)
    assert (str(relation), repr(relation)) == (shown, shown)
    assert parse_relation(shown) == relation
    assert hash(parse_relation(shown)) == hash(relation)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a*b <= 1", r"\(a\) \* \(b\) is not linear; only sums of columns"),
        ("1/a <= 1", r"\(1\) / \(a\) is not linear"),
        ("a/0 <= 1", "a is divided by 0"),
        ("a <=", "expected a column, a number or a text, but it ends"),
        ("", "but it ends"),
        ("a = 3", "there is '=' at character 3; write == for equality"),
        ("a =< 3", "there is '=<' at character 3; write <="),
        ("a => 3", "there is '=>' at character 3; write >="),
        ("a <> 3", "there is '<>' at character 3; write !="),
        ("if a == 3 then b == 3", "there is 'a' at character 4; write implies"),
        ("a <= b)", "expected and, or, or the end, but there is '\\)' at character 7"),
        ("(a <= b", "expected '\\)', but it ends"),
        ("a <= b & c <= d", "'&' at character 8 is not part of the language; write and"),
        ("eval(a)", "there is no function eval; there are implies, any_of"),
        ("a + b", "expected a relation, got a \\+ b; compare it"),
        ("a and b <= 1", "expected a relation, got a"),
        ("'x' < a", "'x' is a text, which has no order; compare it with == or !="),
        ("a <= '3'", "'3' is a text, which has no order; for a number, write 3 without quotes"),
        ("score ext <= 3", "there is 'ext' at character 7; a name with blanks stands in backquotes, as in `score ext`"),
        ("a ≤ 4", "'≤' at character 3 is not part of the language; write <="),
        ("a in ()", "there is nothing in the parentheses; list at least one value"),
        ("a + 'x' == 1", "expected a number or columns, but 'x' is a text"),
        ("(a <= b) + 1 <= 2", "expected a number or columns, but a <= b is a relation"),
        ("2*a is missing", "expected a column, got 2\\*a"),
        ("a in (b, 1)", "expected a number or a text in quotes, got b"),
        ("a is odd", "expected 'missing' or 'present', but there is 'odd'"),
        ("a <= a + b", "column a cancels out"),
        ("1 <= 2", "it names no column"),
        ("'x' == 'y'", "expected a column, got 'x'|got 'y'"),
        ("implies(a <= b)", "implies takes 2 relations, got 1"),
        ("not_(a <= b, b <= c)", "not_ takes 1 relation, got 2"),
        ("one_of(a)", "one_of takes two columns or more, got 1"),
        ("one_of(a, a)", "one_of names column a twice"),
        ("one_of(a, b <= c)", "expected ',' or '\\)'"),
        ("one_of(a, b, name=3)", "the name of a group is a text in quotes, got 3"),
        ("[1.5] <= 1", "expected a position, as in \\[3\\]"),
        ("`a <= 1", "a name in backquotes ends with a backquote"),
        ("a == 'x", "a text ends with the quote"),
        ("a <= 1e99999999", "too many digits"),
        ("a <= 1e1000*1e1000", "too many digits"),
        ("(" * 999 + "a", "nested more than 40 deep"),
        ("not " * 999 + "a <= 1", "nested more than 40 deep"),
        ("__import__('os') == 0", "there is no function __import__"),
    ],
)
def test_malformed_texts_get_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as caught:
        parse_relation(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("relation ")


def test_constructors_take_texts_and_relations() -> None:
    assert tp.implies("a == 0", tp.not_("b == 0")) == parse_relation("implies(a == 0, not b == 0)")
    assert tp.any_of("a == 0", "b == 0", "c == 0") == parse_relation("a == 0 or b == 0 or c == 0")
    assert tp.all_of("a == 0", tp.any_of("b == 0", "c == 0")) == parse_relation("a == 0 and (b == 0 or c == 0)")
    assert tp.any_of("a == 0") == tp.all_of("a == 0") == parse_relation("a == 0")
    assert tp.one_of("a", "b", name="x") == parse_relation("one_of(a, b, name='x')")
    assert tp.at_most_one(0, np.int64(3)) == parse_relation("at_most_one([0], [3])")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.any_of(), "any_of takes one relation or more, got none"),
        (lambda: tp.not_(3), "a relation is a text such as 'a <= b'"),  # type: ignore[arg-type]
        (lambda: tp.one_of(["a", "b"]), "put a star before the list"),  # type: ignore[arg-type]
        (lambda: tp.one_of("a", 1.5), "columns by name or position, got 1.5"),  # type: ignore[arg-type]
        (lambda: tp.one_of("a", "b", name=1), "the name of a group is a text, got 1"),  # type: ignore[arg-type]
        (lambda: tp.one_of("a", -1), "columns by name or position, got -1"),
        (lambda: bind_relations(7, BANK), "relations are a list of texts"),  # type: ignore[arg-type]
    ],
)
def test_constructors_refuse_other_things(make: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        make()


def test_relations_nested_too_deep_in_python_are_refused() -> None:
    relation = parse_relation("a <= 1")
    for _ in range(39):
        relation = tp.not_(relation)
    assert parse_relation(str(relation)) == relation
    with pytest.raises(tp.InvalidInput, match="nested more than 40 deep"):
        tp.not_(relation)


KEYS: st.SearchStrategy[Key] = st.one_of(
    st.sampled_from(["a", "b", "c.d", "capital-gain", "and", "missing", "one_of", "True", "größe"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
    st.integers(0, 99),
)
NUMBERS = st.one_of(
    st.fractions(), st.floats(allow_nan=False, allow_infinity=False).map(Fraction), st.integers(-9, 9).map(Fraction)
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    NUMBERS, st.booleans(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    return Sum(tuple((key, draw(NUMBERS.filter(bool))) for key in keys), draw(NUMBERS))


@st.composite
def comparisons(draw: st.DrawFn) -> Relation:
    left, right = draw(sums()), draw(sums())
    assume(left.terms or right.terms)
    assume(all(factor for _, factor in (left - right).terms))
    return Comparison(left, draw(st.sampled_from(["<=", "<", ">=", ">", "==", "!="])), right)


def relations_of(atoms: st.SearchStrategy[Relation], leaves: int = 8) -> st.SearchStrategy[Relation]:
    def grown(parts: st.SearchStrategy[Relation]) -> st.SearchStrategy[Relation]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            parts.map(Not), several.map(AllOf), several.map(AnyOf), st.tuples(parts, parts).map(lambda p: Implies(*p))
        )

    return st.recursive(atoms, grown, max_leaves=leaves)


@settings(max_examples=30, deadline=None)
@given(
    relations_of(
        st.one_of(
            comparisons(),
            st.builds(Missing, KEYS),
            st.builds(Member, KEYS, st.lists(VALUES, min_size=2, max_size=4, unique=True).map(tuple)),
            st.builds(Member, KEYS, st.text(max_size=3).map(lambda text: (text,))),
            st.builds(
                Group,
                st.lists(KEYS, min_size=2, max_size=4, unique=True).map(tuple),
                st.booleans(),
                st.one_of(st.none(), st.text(max_size=3)),
            ),
        )
    )
)
@example(Comparison(Sum((("a", Fraction(3, 2**4095)),)), "<", Sum((), Fraction(10**1200, 3))))
@example(Comparison(Sum((("a", Fraction(1, 10**1200)),)), "<", Sum((), Fraction(3, 5**1700))))
def test_what_a_relation_shows_parses_back(relation: Relation) -> None:
    assert parse_relation(str(relation)) == relation


# ---- clauses against the literal evaluator ------------------------------------------------------------------

SMALL = model(["h", "x", "y", "m", "k"], handles_missing=True, categories={0: HOUSING, 4: CODES})
STEPS = {3: CENTS}
POOLS: list[list[float]] = [
    [0.0, 1.0, 2.0, 3.0, NAN],
    [0.0, 1.0, 0.1, 0.30000000000000004, -1.0, NAN],
    [0.0, 1.0, 0.2, -0.0, NAN],
    [0.1, 0.3, 0.29999999999999999, 1.0, 0.0, NAN],
    [0.0, 1.0, 4.0, 5.0, NAN],
]
ROWS = np.array(list(itertools.product(*POOLS)))
TEXTS = [
    "h == 'own'", "h in ('own', 'rent')", "h != 'free'", "h is missing", "x is missing", "m is present", "k == 4",
    "k in (0, 1)", "k != 1", "x <= 0.1", "x < 0.1", "2*x > 0.2", "-x >= 0", "x == 1", "x != 0", "y in (0, 0.2)",
    "m <= 0.3", "m < 0.1", "3*m == 0.9", "x <= y", "x < y", "x == y", "x != y", "x + y == m", "x + y <= 3*m - 0.6",
    "x + y > 0.3", "x + 2*m != 0.3", "x + y - m/3 >= 0", "one_of(x, y)", "at_most_one(x, y, m)", "one_of(x, y, m)",
]  # fmt: skip


def false_for(relation: Relation, rows: np.ndarray) -> list[bool]:
    return [truth_of(SMALL, relation, row, STEPS) is False for row in rows]


MERGED = ["x is present or x <= 0", "x is missing or x > 0", "x <= y or x < y", "x < y or x <= y", "x < y and x <= y"]
"""Several literals of the same columns in one clause."""


@pytest.mark.parametrize("text", [*TEXTS, *MERGED])
def test_single_relations_are_broken_where_they_are_false(text: str) -> None:
    relation = parse_relation(text)
    rows = ROWS[np.random.default_rng(0).permutation(len(ROWS))[:400]]
    for stated in (relation, tp.not_(relation)):
        assert bind_relations([stated], SMALL, STEPS).broken(rows).tolist() == false_for(stated, rows)


@settings(max_examples=80, deadline=None)
@given(relations_of(st.sampled_from(TEXTS).map(parse_relation), 6), st.randoms(use_true_random=False))
def test_clauses_are_broken_where_the_stated_relation_is_false(relation: Relation, random: Any) -> None:
    rows = ROWS[random.sample(range(len(ROWS)), 60)]
    try:
        bound_ones = bind_relations([relation], SMALL, STEPS)
    except tp.InvalidInput as error:
        assert "no value of column" in str(error) or "holds for no row" in str(error) or "in two groups" in str(error)
        return
    expected = false_for(relation, rows)
    assert bound_ones.broken(rows).tolist() == expected
    assert [bound_ones.holds(row) for row in rows[:5]] == [not each for each in expected[:5]]


def test_three_values_by_hand() -> None:
    def truth(text: str, *row: float) -> bool | None:
        return truth_of(SMALL, parse_relation(text), np.array(row))

    assert truth("x <= 1", 0, 1, 0, 0, 0) is True
    assert truth("x < 1", 0, 1, 0, 0, 0) is False
    assert truth("x < 1", 0, NAN, 0, 0, 0) is None
    assert truth("x < 1 and y < 1", 0, NAN, 2, 0, 0) is False
    assert truth("x < 1 or y > 1", 0, NAN, 2, 0, 0) is True
    assert truth("implies(x < 1, y < 1)", 0, NAN, 2, 0, 0) is None
    assert truth("x is missing and not y is missing", 0, NAN, 2, 0, 0) is True
    assert truth("h == 'own'", 3, 0, 0, 0, 0) is False
    assert truth("h != 'own'", 3, 0, 0, 0, 0) is True
    assert truth("h != 'own'", NAN, 0, 0, 0, 0) is None
    assert truth("one_of(x, y, m)", 0, 1, 0, 0, 0) is True
    assert truth("one_of(x, y, m)", 0, 1, 0, 0.5, 0) is False
    assert truth("one_of(x, y, m)", 0, 0, 0, 0, 0) is False
    assert truth("at_most_one(x, y, m)", 0, 0, 0, 0, 0) is True
    assert truth("one_of(x, y, m)", 0, 1, NAN, 0, 0) is False
    assert truth("one_of(x, y, m)", 0, 1, NAN, 1, 0) is False


def test_broken_rows_are_listed_with_their_relations() -> None:
    stated = ["x <= y", tp.implies("h == 'own'", "k == 4"), tp.one_of("x", "y")]
    relations = bind_relations(stated, SMALL)
    rows = np.array([[0, 0.0, 1, 0, 4], [0, 1.0, 0, 0, 1], [1, NAN, 7, 0, 0]])
    assert relations.broken(rows).tolist() == [False, True, True]
    assert [(row, str(relation)) for row, relation in relations.which_broken(rows)] == [
        (1, "x <= y"),
        (1, "implies(h == 'own', k == 4)"),
        (2, "one_of(x, y)"),
    ]
    assert relations.features == (0, 1, 2, 4)
    assert not bind_relations(None, SMALL) and not bind_relations([], SMALL).broken(rows).any()
    assert bind_relations("x <= y", SMALL).broken(rows).tolist() == [False, True, False]


# ---- the bound form -----------------------------------------------------------------------------------------


def test_clauses_have_one_literal_for_each_column() -> None:
    (clause,) = bind_relations(["x <= 1 or y == 2 or x >= 3 or x is missing"], SMALL).clauses
    first, second = clause
    assert isinstance(first, ColumnLiteral) and isinstance(second, ColumnLiteral)
    assert (first.feature, first.where.cuts, first.where.lefts) == (1, (1.0, np.nextafter(3.0, 0)), (True, False, True))
    assert (second.feature, second.where.cuts) == (2, (np.nextafter(2.0, 0), 2.0))


def test_linear_comparisons_have_whole_factors_without_a_common_divisor() -> None:
    ((less,), (more,)) = bind_relations(["x/2 + y == 2*m/3 + 1/6"], SMALL).clauses
    assert less == Linear(((1, Fraction(3)), (2, Fraction(6)), (3, Fraction(-4))), Fraction(1))
    assert more == Linear(((1, Fraction(-3)), (2, Fraction(-6)), (3, Fraction(4))), Fraction(-1))
    ((below, above),) = bind_relations(["2*x != 2*y"], SMALL).clauses
    assert below == Linear(((1, Fraction(1)), (2, Fraction(-1))), Fraction(0), strict=True)
    assert above == Linear(((1, Fraction(-1)), (2, Fraction(1))), Fraction(0), strict=True)


def test_what_always_holds_leaves_no_clause() -> None:
    assert bind_relations(["x <= 1 or x > 1", "h == 'own' or h != 'own'"], SMALL).clauses == ()


def test_groups_joined_by_and_stay_groups() -> None:
    relations = bind_relations(
        [tp.all_of("x <= 1", tp.one_of("y", "m", name="ym")), "at_most_one(x, flag)"], named("xymf")
    )
    assert [(group.features, group.exactly, group.name) for group in relations.groups] == [
        ((1, 2), True, "ym"),
        ((0, 3), False, None),
    ]
    assert relations.group_origin == (0, 1) and len(relations.clauses) == 1


def named(letters: str) -> tp.Ensemble:
    return model(["flag" if letter == "f" else letter for letter in letters])


def test_too_many_clauses_are_refused_with_the_way_out() -> None:
    both = [tp.all_of(f"x == {i}", f"y == {i}", f"m == {i}", f"x + y == {i}") for i in range(9)]
    with pytest.raises(
        tp.InvalidInput, match="takes more than 20,000 comparisons once .*; state it as several relations"
    ):
        bind_relations([tp.any_of(*both)], SMALL)


# ---- exact numbers ------------------------------------------------------------------------------------------


@given(
    st.decimals(-100, 100, places=3).map(Fraction),
    st.integers(-3, 3),
    st.sampled_from(["<=", "<", ">=", ">", "==", "!="]),
)
@example(Fraction(1, 10), 0, "==")
@example(Fraction("0.30000000000000001"), 0, "<=")
@example(Fraction("0.30000000000000001"), 0, "<")
@example(Fraction("0.30000000000000001"), 0, "==")
def test_columns_with_a_step_are_compared_as_the_decimals_they_print_as(
    constant: Fraction, ulps: int, operator: str
) -> None:
    value = float(constant)
    for _ in range(abs(ulps)):
        value = math.nextafter(value, math.copysign(math.inf, ulps))
    relations = bind_relations([Comparison(Sum((("m", Fraction(1)),)), operator, Sum((), constant))], SMALL, STEPS)
    decimal = Fraction(repr(value))
    holds = {
        "<=": decimal <= constant, "<": decimal < constant, ">=": decimal >= constant,
        ">": decimal > constant, "==": decimal == constant, "!=": decimal != constant,
    }[operator]  # fmt: skip
    assert relations.holds(np.array([0, 0, 0, value, 0])) == holds


def test_one_column_is_compared_with_the_nearest_double_as_python_does() -> None:
    relations = bind_relations(["x <= 0.1"], SMALL)
    assert Fraction(0.1) > Fraction(1, 10)
    assert relations.holds(np.array([0, 0.1, 0, 0, 0]))
    assert not relations.holds(np.array([0, math.nextafter(0.1, 1), 0, 0, 0]))


def test_columns_are_compared_with_each_other_without_rational_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.1, math.nextafter(0.1, 1), 0.3, -0.1, 5e-324, 0.0, -0.0, 1.7e308, -1.7e308]
    rows = np.array(list(itertools.product(values, values)))
    ensemble = model(["a", "b"])
    for operator, steps in itertools.product(["<=", "<", ">=", ">", "==", "!="], [(), (0, 1)]):
        stated = [parse_relation(f"a {operator} b")]
        expected = [not satisfies(ensemble, stated, row, steps) for row in rows]
        with monkeypatch.context() as changed:
            changed.setattr(bound, "_holds_exactly", None)
            assert bind_relations(stated, ensemble, dict.fromkeys(steps, CENTS)).broken(rows).tolist() == expected
    mixed = bind_relations(["a <= b"], ensemble, {0: CENTS}).broken(rows).tolist()
    assert mixed == [not satisfies(ensemble, [parse_relation("a <= b")], row, (0,)) for row in rows]
    assert mixed != bind_relations(["a <= b"], ensemble).broken(rows).tolist()


def test_sums_of_cents_hold_as_decimals_and_without_rational_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    cents = rng.integers(0, 10**6, size=(5000, 2))
    cents = np.column_stack((cents, cents.sum(axis=1)))
    cents[::10, 2] += 1
    rows = cents / 100
    ensemble = model(["a", "b", "total"])
    stated = [parse_relation("a + b == total")]
    as_doubles = bind_relations(stated, ensemble).broken(rows)
    assert as_doubles.tolist() == [not satisfies(ensemble, stated, row) for row in rows]
    assert as_doubles.sum() > 1500
    monkeypatch.setattr(bound, "_holds_exactly", None)
    broken = bind_relations(stated, ensemble, dict.fromkeys(range(3), CENTS)).broken(rows)
    assert broken.tolist() == [row % 10 == 0 for row in range(5000)]


FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.integers(-(10**6), 10**6).map(lambda k: k / 100),
    st.integers(-(2**60), 2**60).map(float),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-5, 5).filter(bool), min_size=3, max_size=3),
    st.lists(FINITE, min_size=3, max_size=3),
    st.sets(st.integers(0, 2)),
    st.sampled_from([Fraction(0), Fraction(1, 10**25), Fraction(-1, 10**25), Fraction(1), Fraction(-1, 3)]),
    st.sampled_from(["<=", "<", "==", "!="]),
)
@example([1, 1, -1], [0.1, 0.2, 0.3], set(), Fraction(0), "==")
@example([1, 1, -1], [0.1, 0.2, 0.3], {0, 1, 2}, Fraction(0), "==")
@example([1, 1, -1], [0.1, 0.2, 0.3], {0, 1}, Fraction(0), "<=")
@example([1, 1, -1], [1.7e308, 1.7e308, 1.7e308], set(), Fraction(0), "<")
def test_sums_on_their_own_boundary_are_exact(
    factors: list[int], values: list[float], stepped: set[int], beside: Fraction, operator: str
) -> None:
    ensemble = model(["a", "b", "c"])
    terms = tuple((name, Fraction(factor)) for name, factor in zip("abc", factors, strict=True))
    exact = [Fraction(repr(value)) if f in stepped else Fraction(value) for f, value in enumerate(values)]
    constant = sum((factor * value for factor, value in zip(factors, exact, strict=True)), Fraction(0)) + beside
    assume(max(abs(constant.numerator), constant.denominator).bit_length() < 4096)
    stated = [Comparison(Sum(terms), operator, Sum((), constant))]
    holds = {"<=": beside >= 0, "<": beside > 0, "==": beside == 0, "!=": beside != 0}[operator]
    row = np.array(values)
    assert bind_relations(stated, ensemble, dict.fromkeys(stepped, CENTS)).holds(row) == holds
    assert satisfies(ensemble, stated, row, stepped) == holds


# ---- relations that do not fit the model --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("max_30d <= max12m", "has no column 'max12m'; it has 'max_12m' and 6 more"),
        ("max_30d <= q", "has no column 'q'; it has 'max_30d', 'max_12m', 'housing', "),
        ("max_30d <= capital-gain", "'capital'; it has 'capital-gain' and 6 more; in a relation, write `capital-gain`"),
        ("max_30d != nan", "has no column 'nan'; .* said as in income is missing, or income is present"),
        ("housing == rent", "has no column 'rent'; .*; if it is a value, write 'rent'"),
        ("[7] <= 1", "there is no column 7; the model has columns 0 to 6"),
        ("max_30d == 'own'", "column 'max_30d' holds numbers, but 'own' is a text"),
        ("max_30d in (1, 'own')", "column 'max_30d' holds numbers, but 'own' is a text"),
        ("code == 'own'", "column 'code' holds numbers, but 'own' is a text"),
        ("housing <= 2", "column 'housing' is a category: a category has no order"),
        ("code <= 2", "column 'code' is a category: a category has no order"),
        ("housing + max_30d <= 2", "column 'housing' is a category: a category has no order and no sum"),
        ("housing == 'onw'", "column 'housing' has no value 'onw'; it has 'own' and 2 more"),
        ("housing == 1", "column 'housing' has no value 1; it has 'own', 'rent', 'free'"),
        ("one_of(housing, max_30d)", "column 'housing' is a category of its own"),
        ("one_of(max_30d, [0])", "it names column 'max_30d' twice"),
        ("max_30d <= 2*[0]", "it names column 'max_30d' in two ways"),
        ("max_30d <= 1e309", "is beyond the numbers that a column can hold"),
        (["max_30d <= 1", "max_30d >= 2"], "no value of column 'max_30d' satisfies 'max_30d <= 1' and 'max_30d >= 2'"),
        (["max_30d <= 1", "max_30d >= 0", "max_30d >= 2"], "satisfies 'max_30d <= 1' and 'max_30d >= 2'"),
        (["total != 0", "total in (0, 1)", "total != 1"], "satisfies 'total != 0' and 'total in .*' and 'total != 1'"),
        ("max_30d <= 1 and max_30d > 1", "no value of column 'max_30d' satisfies 'max_30d <= 1 and max_30d > 1'"),
        (["housing == 'own'", "housing == 'rent'"], "no value of column 'housing' satisfies"),
        (["`capital-gain` is missing"], "no value of column 'capital-gain' satisfies"),
        (["max_30d is missing", "max_30d is present"], "no value of column 'max_30d' satisfies"),
        (["one_of(max_30d, total)", "total == 0.5"], "no value of column 'total' satisfies"),
        (["one_of(max_30d, total)"] * 2, "column 'max_30d' is in two groups, 'one_of\\(max_30d, total\\)' and"),
        (["one_of(max_30d, total)", "at_most_one(max_12m, total)"], "column 'total' is in two groups"),
    ],
)  # fmt: skip
def test_relations_that_do_not_fit_get_one_clear_line(stated: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as caught:
        bind_relations(stated, BANK)
    assert "\n" not in str(caught.value)


def test_models_without_names_take_positions() -> None:
    ensemble = model(None, n=3)
    assert bind_relations(["[0] <= [2]"], ensemble).broken(np.array([[1.0, 0, 0], [0, 0, 0]])).tolist() == [True, False]
    with pytest.raises(tp.InvalidInput, match="the model has no names for its columns; give positions"):
        bind_relations(["a <= b"], ensemble)


def test_flags_of_true_and_false_are_numbers_or_categories() -> None:
    assert bind_relations(["flag == True", "max_30d == False"], BANK).holds(np.array([0.0, 0, 0, 0, 0, 0, 1]))
    assert bind_relations(["one_of(flag, max_30d)"], BANK).broken(np.array([[1.0, 0, 0, 0, 0, 0, 1]])).all()


def test_numbers_name_values_of_categories_as_the_model_knows_them() -> None:
    ensemble = model(
        ["text", "number"], categories={0: Category(("5", "x"), by_text=True), 1: Category((0.1, 7), unseen=True)}
    )
    rows = np.array(list(itertools.product([0.0, 1.0], [0.0, 1.0, 2.0])))
    for text in ("text == 5", "text == '5'", "number == 0.1", "number in (0.1, 7)", "number not in (0.1, 7)"):
        stated = [parse_relation(text)]
        broken = bind_relations(stated, ensemble).broken(rows)
        assert broken.any() and not broken.all()
        assert broken.tolist() == [not satisfies(ensemble, stated, row) for row in rows]


def test_a_missing_value_may_be_all_that_is_left() -> None:
    relations = bind_relations(["max_30d is missing"], BANK)
    assert relations.broken(np.array([[NAN, 0, 0, 0, 0, 0, 0], [0.0] * 7])).tolist() == [False, True]


# ---- files --------------------------------------------------------------------------------------------------


def test_files_hold_one_relation_per_line(tmp_path: Path) -> None:
    file = tmp_path / "relations.txt"
    file.write_text("# what a row must satisfy\n\nmax_30d <= max_12m  # months\n  one_of(a, b, name='#1')\n", "utf-8")
    assert read_relations(file) == [parse_relation("max_30d <= max_12m"), tp.one_of("a", "b", name="#1")]
    file.write_text("a <= b\n\na < = b\n", "utf-8")
    with pytest.raises(tp.InvalidInput, match=r"relations.txt, line 3: relation 'a < = b': expected a column"):
        read_relations(file)


def test_relations_as_json(tmp_path: Path) -> None:
    file = tmp_path / "relations.json"
    stated = [tp.implies("loans == 0", "amount == 0"), tp.at_most_one("a", "b\nc")]
    file.write_text(json.dumps({"format": "treeproof-relations", "version": 1, "relations": list(map(str, stated))}))
    assert read_relations(file) == stated
    assert tp.read_relations is read_relations


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ({"relations": []}, 'it lacks "format"'),
        ({"format": "treeproof-relations", "version": 2, "relations": []}, "has version 2"),
        ({"format": "treeproof-relations", "version": 1}, "must have a list of relations"),
        (
            {"format": "treeproof-relations", "version": 1, "relations": ["a <= b", 3]},
            "relation 2 must be a text, got 3",
        ),
        ({"format": "treeproof-relations", "version": 1, "relations": ["a <"]}, "relation 1: relation 'a <': expected"),
    ],
)
def test_damaged_json_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "relations.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    with pytest.raises(tp.InvalidInput, match=message):
        read_relations(file)


@pytest.mark.parametrize("given", ["rel.txt", "some folder/rel.json", Path("rel.txt")])
def test_a_file_in_the_place_of_relations_is_told_apart(given: Any) -> None:
    with pytest.raises(tp.InvalidInput, match=r"got .*rel.*; tp.read_relations reads a file"):
        bind_relations(given, BANK)


def test_what_does_not_fit_the_model_says_its_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rel.txt"
    file.write_text("max_30d <= 3\n\n# a comment\nmax30d <= 3\n")
    with pytest.raises(tp.InvalidInput, match=r"rel.txt, line 4: relation 'max30d <= 3': the model has no column"):
        bind_relations(tp.read_relations(file), BANK)
    assert tp.read_relations(file)[0] == parse_relation("max_30d <= 3"), "where they stand makes no difference"
    assert str(pickle.loads(pickle.dumps(tp.read_relations(file)[0]))) == "max_30d <= 3"
