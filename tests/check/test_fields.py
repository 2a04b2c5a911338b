"""Every field of every file is known to the checker, and none can be changed without it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.proof_files import proof_files
from treeproof.check.attacks import Attacks, question_of
from treeproof.check.fields import FORM, TABLES, Field, check, parse
from treeproof.check.model_file import Model, check_model
from treeproof.check.proof_file import ProofFile
from treeproof.check.results import check_result, check_told
from treeproof.check.rows import Checked, check_header, check_rows
from treeproof.check.rules import Rejected
from treeproof.importers.native import as_text, load_bytes

PAGE = (Path(__file__).parents[2] / "docs" / "proof_format.md").read_text("utf-8")
Files = tuple[dict[str, Any], dict[str, Any], Path]


def plain(folder: Path) -> Files:
    files = proof_files(folder)
    return *(json.loads(path.read_text("utf-8")) for path in files[:2]), files.proofs  # type: ignore[return-value]


def rich(folder: Path) -> Files:
    """Categories, missing values, steps, matrices, groups, relations, a goal and actors."""
    model, proofs = applicants(), folder / "rich.tpp"
    rows = np.array([[3.0, 6.0, 1.0, 30.0, 1.0], [2.0, np.nan, 0.0, 40.0, 2.0], [np.nan, 5.0, 2.0, 50.0, 3.0]])
    attacker = tp.Attacker(
        {"income": (-4.0, 4.0), "months": tp.steps(-9.0, 9.0, 0.5), "purpose": tp.ANY},
        costs={"income": 3, "purpose": 5},
        blank={"income": 4},
        fill={"income": 2},
        budget=9,
        groups={"some": ["income", "months"]},
        budgets={"some": 5},
        domain={"income": (-5.0, 50.0)},
    )
    labels = model.predict(rows)
    found = tp.verify(
        model, rows, labels, attacker, epsilon={"income": 0.1}, actors=[labels[0].item()],
        relations=["purpose == 'car' or income >= 2", "income + months <= 12"], proofs=proofs, progress=False,
    )  # fmt: skip
    return json.loads(as_text(model)), json.loads(found.to_json()), proofs


def cheapest(folder: Path) -> Files:
    model, _, _ = plain(folder)
    text, proofs = json.dumps(model), folder / "cheapest.tpp"
    (folder / "m.json").write_text(text)
    loaded = tp.load_model(folder / "m.json")
    rows = np.array([[0.2, 0.9, 0.1], [0.6, 0.3, 0.7]])
    found = tp.cheapest_attack(loaded, rows, tp.Attacker.lp(2, 0.5, up=["age"]), proofs=proofs)
    return model, json.loads(found.to_json()), proofs


def several(folder: Path) -> Files:
    """A boosted model, neighbourhoods in each other, a goal and actors; a distance that all moves share."""
    X = np.random.default_rng(1).random((60, 3)).round(2)
    y = np.where(X[:, 0] + X[:, 1] > 1, "yes", "no")
    model, proofs = (
        tp.from_model(GradientBoostingClassifier(n_estimators=6, random_state=0).fit(X, y)),
        folder / "s.tpp",
    )
    attacker = tp.Attacker.lp(1, 0.15, goal="yes", step=0.01)
    words: dict[str, Any] = {"epsilons": [0.05, 0.2], "actors": ["no"], "proofs": proofs}
    found = tp.verify(model, X[:6], y[:6], attacker, progress=False, **words)
    return json.loads(as_text(model)), json.loads(found.to_json()), proofs


def ruled(folder: Path) -> Files:
    """Rules of numbers, and a one-hot group with a name, which the attacker changes at a price for each pair."""
    X = np.random.default_rng(2).integers(0, 5, (60, 4)).astype(float)
    X[:, 1:] = np.eye(3)[X[:, 1].astype(int) % 3]
    model = tp.from_model(DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, X[:, 0] + 2 * X[:, 2] > 3))
    model, proofs = model.named(["hours", "a", "b", "c"]), folder / "r.tpp"
    rules = [tp.Rule("hours", when=(0, 3), change=(0, 1), cost=2), tp.Rule("kind", when=["a", "b"], to="c", cost=1)]
    attacker = tp.Attacker.rules(rules, budget=3, domain={"hours": (0, 5)})
    words: dict[str, Any] = {"relations": [tp.one_of("a", "b", "c", name="kind"), "hours <= 5"], "proofs": proofs}
    found = tp.verify(model, X[:6], model.predict(X[:6]), attacker, epsilon={"hours": 1}, progress=False, **words)
    return json.loads(as_text(model)), json.loads(found.to_json()), proofs


QUESTIONS = {"plain": plain, "rich": rich, "cheapest": cheapest, "several": several, "ruled": ruled}


@pytest.fixture(scope="module", params=QUESTIONS)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return QUESTIONS[request.param](tmp_path_factory.mktemp(request.param))


def holds(model: Any, result: Any, proofs: Path) -> bool:
    """Whether both files are accepted, with everything that they say and that has a proof."""
    try:
        question, file, found = question_of(model, result), ProofFile.open(proofs), Checked()
        check_header(question, file)
        is_attacks, rows = isinstance(question, Attacks), range(len(question.result["X"]))
        for _, one in (check_rows if is_attacks else check_result)(question, file, rows):
            found.add(one)
        if not is_attacks:
            check_told(question)
    except Rejected:
        return False
    return not found.rejected and found.unchecked.keys() <= file.without.keys()


# --- the page, and the writers ---------------------------------------------------------------------------------------


def test_the_page_shows_the_tables() -> None:
    lines = ["| file | what the checker does with these | fields |", "|---|---|---|"]
    for name, table in TABLES.items():
        uses: dict[str, list[str]] = {}
        for field, one in table.items():
            assert isinstance(one, Field) and one.use, (name, field)
            uses.setdefault(one.use, []).append(f"`{field}`" + ("" if one.is_needed else "?"))
        lines += [f"| {name} | {use} | {', '.join(fields)} |" for use, fields in uses.items()]
    assert "\n".join(lines) in PAGE


def test_whatever_is_written_is_in_the_tables_and_accepted(files: Files) -> None:
    model, result, _ = files
    check(model, TABLES["model"], "the model")
    check(result, TABLES["cheapest attacks" if "price" in result else "result"], "the result")
    assert Model.of(model).fingerprint == result["fingerprint"]
    assert holds(*files)


# --- changes ---------------------------------------------------------------------------------------------------------

ODD = [None, True, 0, 1, -1, 2, 0.5, 1.0, -0.0, 10**400, "", "0", "１", "1e100000000", [], [[]], {}, {"all": 0}]


def changes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Other contents, each with the place of the change; of long lists only the ends are changed."""
    for odd in ODD:
        if not (type(odd) is type(value) and odd == value):
            yield path, odd
    if isinstance(value, dict):
        yield path, {**value, "transform": "log1p"}
        for name, inner in value.items():
            yield (*path, name), {key: one for key, one in value.items() if key != name}
            for place, other in changes(inner, (*path, name)):
                yield place, {**value, name: other}
    elif isinstance(value, list) and value:
        for other in (value[:-1], [*value, value[0]], [*value[1:], value[0]]):
            if other != value:
                yield path, other
        for at in {0, len(value) - 1}:
            for place, other in changes(value[at], (*path, at)):
                yield place, [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, float) and value + 0.25 != value:
        yield path, value + 0.25
    elif isinstance(value, str):
        yield path, value + "x"


def is_claim_free(which: str, path: tuple[Any, ...]) -> bool:
    """Whether a field is one of those of which only the form is checked."""
    name = {"model": "model", "result": "result"}[which]
    return bool(path) and path[0] in TABLES[name] and TABLES[name][path[0]].use == FORM


@pytest.mark.parametrize("which", ["model", "result"])
def test_no_field_can_be_changed_unnoticed(files: Files, which: str) -> None:
    """But for those that claim nothing, and for what is the same number or the same list in another way."""
    given = dict(zip(("model", "result"), files[:2], strict=True))
    tried, odd = 0, []
    for number, (path, changed) in enumerate(changes(given[which])):
        # Each field is tried with every third of the values, with others from field to field.
        if number % 3 or is_claim_free(which, path):
            continue
        tried += 1
        contents = copy.deepcopy({**given, which: changed})
        if holds(contents["model"], contents["result"], files[2]):
            one, other = value_at(changed, path), value_at(given[which], path)
            if not is_still_true(contents["model"], contents["result"], path, one, other):
                odd.append((path, str(one)[:60]))
    assert tried > 300
    # Null in place of columns or names says that they are not known, and so does -1 of the neighbourhood of a
    # counterexample; it is in the larger one, too.
    odd = [(path, value) for path, value in odd if path[0] != "refuted" or value not in ("-1", "1")]
    unknown = {((name,), "None") for name in ("movable", "unreached", "untested", "feature_names")}
    odd = [(path, value) for path, value in odd if path[:1] != ("by_class",) or len(path) > 1]  # in another order
    assert set(odd) <= unknown


def is_still_true(model: Any, result: Any, path: tuple[Any, ...], one: Any, other: Any) -> bool:
    """Whether a change is the same number, or another attack that leads to the same label."""
    if {type(one), type(other)} <= {int, float}:
        if path[0] == "attacked" and len(path) == 3 and "attacked_label" in result:
            x = [np.nan if value is None else value for value in result["attacked"][path[1]]]
            loaded = load_bytes(json.dumps(model).encode(), voting=None)
            return bool(loaded.predict([x])[0] == result["attacked_label"][path[1]])
        return bool(one == other)
    return False


def value_at(content: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        content = content[step] if isinstance(content, list) or step in content else "gone"
    return content


@pytest.mark.parametrize("which", ["model", "result"])
def test_fields_that_claim_nothing_have_their_form(files: Files, which: str) -> None:
    given = dict(zip(("model", "result"), files[:2], strict=True))
    for name, field in TABLES[which].items():
        if field.use == FORM and name in given[which]:
            for odd in ({"all": 0}, [[]], -1, "x" * 10 if not isinstance(given[which][name], (str, type(None))) else 5):
                contents = {**given, which: {**given[which], name: odd}}
                assert not holds(contents["model"], contents["result"], files[2]), (name, odd)


# --- numbers and nesting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 10**6 + "}",
        '{"a": 0.' + "1" * 10**6 + "}",
        "[" * 10**5 + "]" * 10**5,
        '{"a":' * 10**5,
        "\ufeff{}",
        '"\udcff"',
    ],
    ids=range(10),
)
def test_json_that_others_might_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="is not JSON"):
        parse(text.encode("utf-8", "surrogateescape"), "it")


@pytest.mark.parametrize(
    "fields",
    [
        {"step": {"all": "1e100000000"}},
        {"step": {"all": "1e-100000000"}},
        {"step": {"all": "1/3"}},
        {"step": {"all": "0." + "1" * 10**6}},
        {"step": {"all": " 1"}},
        {"step": {"all": "1_0"}},
        {"power": 10**9},
        {"budget": 10**400},
        {"rules": [{"column": 0, "change": "1e100000000", "cost": 1}]},
    ],
)
def test_numbers_that_arithmetic_takes_long_for_are_refused_before_it(files: Files, fields: dict[str, Any]) -> None:
    model, result, proofs = files
    assert not holds(model, {**result, "attacker": {**result["attacker"], **fields}}, proofs)


@pytest.mark.parametrize(
    "text",
    [
        "a <= 1e100000000",
        "a <= 1e-100000000",
        "a <= " + "9" * 10**6,
        "a <= １",
        "a is ｍissing",
        "(" * 10**5 + "a <= 1",
        "not " * 10**5 + "a <= 1",
        "a <= 1 # " + "x" * 10**6 * 2,
        "a + " * 10**5 + "a <= 1",
    ],
    ids=range(9),
)
def test_relations_that_take_long_are_refused(text: str) -> None:
    from treeproof.check.relation_texts import Relations

    with pytest.raises(Rejected):
        Relations({"columns": [{"name": "a"}]}, [text])


PLAIN = {"low": 0.0, "high": 1.0, "missing": False}


def test_columns_that_are_none_are_refused() -> None:
    model = json.loads(as_text(applicants()))
    for fields in (
        {"columns": []},
        {"columns": [model["columns"][0]] * 5},
        {"columns": [*model["columns"][:4], PLAIN]},
        {"columns": [{**PLAIN, "name": str(f), "low": 2.0} for f in range(5)]},
        {"columns": [{**PLAIN, "name": str(f), "feature": f} for f in range(5)]},
    ):
        with pytest.raises(Rejected):
            check_model({**model, **fields}, "the model")
