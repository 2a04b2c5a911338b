"""Data frames with text, from `fit` to the report: every library, every door."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treeproof as tp
from tests.support.commands import run
from treeproof.model.columns import Category, changed_frame
from treeproof.results.verdicts import Outcome

pd = pytest.importorskip("pandas")

N = 240
TEXT = {"job": ["cook", "driver", "nurse", "teacher"], "home": ["own", "rent"]}
ATTACKER = tp.Attacker({"job": tp.ANY, "home": tp.ANY, "income": (-300, 300)})


def data() -> tuple[Any, np.ndarray]:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({name: random.choice(values, N) for name, values in TEXT.items()})
    frame.insert(1, "income", random.integers(8, 60, N) * 100.0)
    frame["age"] = random.integers(18, 80, N)
    score = frame.income / 1000 + (frame.job == "nurse") * 2 - (frame.home == "rent") + random.normal(size=N)
    frame.loc[random.random(N) < 0.1, "income"] = np.nan
    return frame, np.where(score > 3, "yes", "no")


X, Y = data()
CATEGORIES = X.astype(dict.fromkeys(TEXT, "category"))


def forest() -> tuple[Any, Any]:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    steps = make_column_transformer((OneHotEncoder(), list(TEXT)), (numbers, ["income", "age"]))
    return make_pipeline(steps, RandomForestClassifier(7, max_depth=5, random_state=0)).fit(X, Y), X


def histograms() -> tuple[Any, Any]:
    return HistGradientBoostingClassifier(max_iter=12, random_state=0).fit(CATEGORIES, Y), CATEGORIES


def lightgbm() -> tuple[Any, Any]:
    library = pytest.importorskip("lightgbm")
    model = library.LGBMClassifier(n_estimators=12, min_child_samples=5, verbose=-1, n_jobs=1)
    return model.fit(CATEGORIES, Y), CATEGORIES


def xgboost() -> tuple[Any, Any]:
    library = pytest.importorskip("xgboost")
    if not hasattr(library.Booster, "get_categories"):
        pytest.skip("this XGBoost stores no categories")
    model = library.XGBClassifier(n_estimators=12, max_depth=4, enable_categorical=True, n_jobs=1)
    return model.fit(CATEGORIES, (Y == "yes").astype(int)), CATEGORIES


def catboost() -> tuple[Any, Any]:
    library = pytest.importorskip("catboost")
    model = library.CatBoostClassifier(
        iterations=12, depth=4, verbose=False, thread_count=1, allow_writing_files=False, cat_features=list(TEXT),
        max_ctr_complexity=1, random_seed=0,
    )  # fmt: skip
    return model.fit(X, Y), X


MODELS = {fit.__name__: fit for fit in (forest, histograms, lightgbm, xgboost, catboost)}


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> tuple[Any, Any, tp.Ensemble, tp.Verification]:
    model, rows = MODELS[request.param]()
    ensemble = tp.from_model(model, **({"categories": X} if request.param == "catboost" else {}))
    rows = rows[:40]
    return model, rows, ensemble, tp.verify(ensemble, rows, ensemble.predict(rows), ATTACKER)


def labels(model: Any, rows: Any) -> np.ndarray:
    return np.asarray(model.predict(rows)).reshape(-1)


def test_labels_are_the_library_s_own(case: Any) -> None:
    model, rows, ensemble, _ = case
    assert (ensemble.predict(rows) == labels(model, rows)).all()
    known = {column.name: sorted(column.values) for column in ensemble.columns if column.kind == "category"}
    assert known == TEXT


def test_counterexamples_flip_the_library_s_own_predict_of_the_frame(case: Any) -> None:
    model, rows, _, result = case
    found = result.attacked_frame()
    assert len(found) > 3
    assert list(found.index) == list(rows.index[result.has_witness])
    assert (labels(model, found) != labels(model, rows)[result.has_witness]).all()
    for row in np.flatnonzero(result.has_witness).tolist():
        moved = result.witness(row).moved
        assert set(moved) <= {"job", "home", "income"}
        assert all(after in TEXT[name] for name, (_, after) in moved.items() if name in TEXT)


def test_proved_rows_hold_for_all_values(case: Any) -> None:
    model, rows, ensemble, result = case
    cuts = ensemble.grid.cuts_of(ensemble.feature_index("income"))
    for row in np.flatnonzero(result.stability == Outcome.PROVED)[:6].tolist():
        own = rows.iloc[[row]]
        incomes = [float(own["income"].iloc[0])]
        if not np.isnan(incomes[0]):
            near = cuts[np.abs(cuts - incomes[0]) < 299]
            incomes += [*near.tolist(), *np.nextafter(near, np.inf).tolist(), incomes[0] - 300, incomes[0] + 300]
        tried = pd.concat([own] * len(incomes) * 8)
        changes = list(itertools.product(TEXT["job"], TEXT["home"], incomes))
        for name, values in zip(("job", "home", "income"), zip(*changes, strict=True), strict=True):
            tried[name] = pd.Series(values, index=tried.index).astype(rows[name].dtype)
        assert set(labels(model, tried)) == {labels(model, own)[0]}


def test_missing_numbers_and_untouched_categories_are_said(case: Any) -> None:
    _, rows, ensemble, result = case
    assert result.rows_with_missing == int(rows["income"].isna().sum()) > 0
    assert "missing" in repr(result)
    still = tp.verify(ensemble, rows, ensemble.predict(rows), tp.Attacker.linf(50))
    assert "2 categories untouched" in repr(still)
    assert (still.attacked[:, [0, 2]] == still.X[:, [0, 2]]).all()


def test_files_keep_values(case: Any, tmp_path: Path) -> None:
    _, rows, ensemble, result = case
    tp.save_model(ensemble, tmp_path / "model.json")
    again = tp.load_model(tmp_path / "model.json")
    assert again.columns == ensemble.columns
    assert again.fingerprint == ensemble.fingerprint
    assert (again.predict(rows) == ensemble.predict(rows)).all()
    read = tp.Verification.from_json(result.to_json())
    assert read.to_columns()["moved"] == result.to_columns()["moved"]
    assert any("→" in moved for moved in read.to_columns()["moved"])
    assert json.loads(result.to_json())["categories"]


def test_one_row_guards_and_the_cheapest_attack(case: Any) -> None:
    model, rows, ensemble, result = case
    verifier = tp.Verifier(ensemble, ATTACKER)
    assert [verdict.stability for verdict in verifier.verdicts(rows)] == result.stability.tolist()
    from sklearn.frozen import FrozenEstimator

    guard = tp.GuardedClassifier(FrozenEstimator(ensemble), ATTACKER).fit()
    with pytest.warns(UserWarning, match="missing cells"):
        assert (guard.is_proved(rows) == (result.stability == Outcome.PROVED)).all()
    priced = tp.Attacker(
        {"job": tp.ANY, "home": tp.ANY, "income": (-300, 300)}, costs={"job": 3, "home": 2, "income": 1}
    )
    cheapest = tp.cheapest_attack(ensemble, rows, priced)
    broken = np.isfinite(cheapest.price)
    assert (broken == (result.stability == Outcome.REFUTED)).all()
    assert cheapest.rows.columns.tolist() == rows.columns.tolist()
    assert (labels(model, cheapest.rows[broken]) != labels(model, rows[broken])).all()
    assert (labels(model, cheapest.rows[~broken]) == labels(model, rows[~broken])).all()


def test_a_guard_trains_on_text() -> None:
    model, _ = forest()
    guard = tp.GuardedClassifier(model, ATTACKER).fit(X, Y)
    with pytest.warns(UserWarning, match="missing cells"):
        assert set(guard.predict(X[:20])) <= {"yes", "no", "abstain"}


def test_the_command_line_reads_text(
    case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, rows, ensemble, result = case
    monkeypatch.chdir(tmp_path)
    tp.save_model(ensemble, "model.json")
    rows.assign(label=ensemble.predict(rows)).to_csv("rows.csv", index=False)
    delta = ["--delta", "job=any,home=any,income=300"]
    code, out, _ = run(capsys, "verify", "model.json", "rows.csv", *delta, "--json", "r.json")
    assert code == 0
    assert "may move job and home to any value and income by up to 300 either way" in " ".join(out.split())
    assert tp.Verification.from_json("r.json").stability.tolist() == result.stability.tolist()
    rows.assign(job="pilot", label=ensemble.predict(rows)).to_csv("rows.csv", index=False)
    code, _, err = run(capsys, "verify", "model.json", "rows.csv", "--delta", "income=300")
    unseen = dict(ensemble.categories)[0].unseen
    assert code == (0 if unseen else 2)
    assert unseen or "column 'job': the model does not know the value 'pilot'; it knows 'cook'" in err


def test_verdicts_are_those_on_the_transformed_rows() -> None:
    """Where the attacker only moves numbers that the steps pass through, the model alone gives the same answers."""
    rows = X.dropna()
    steps = make_column_transformer((OneHotEncoder(sparse_output=False), list(TEXT)), remainder="passthrough")
    model = make_pipeline(steps, RandomForestClassifier(9, max_depth=5, random_state=1)).fit(rows, Y[rows.index])
    made = steps.transform(rows[:60])
    names = steps.get_feature_names_out().tolist()
    for attacker in ({"income": (-400, 200), "age": (-3, 3)}, {"age": (-9, 9)}):
        moved = {names.index(f"remainder__{name}"): interval for name, interval in attacker.items()}
        labels_here = model.predict(rows[:60])
        whole = tp.verify(model, rows[:60], labels_here, tp.Attacker(attacker), epsilon={"income": 20})
        epsilon = {names.index("remainder__income"): 20}
        alone = tp.verify(model[-1], made, labels_here, tp.Attacker(moved), epsilon=epsilon)
        assert whole.stability.tolist() == alone.stability.tolist()
        assert whole.resilience_by_epsilon[0].tolist() == alone.resilience_by_epsilon[0].tolist()
        assert 0 < (whole.stability == Outcome.REFUTED).sum() < 60


# ---- what rows may hold -----------------------------------------------------------------------------------


def tree(frame: Any, labels_: Any, *steps: Any) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    model = make_pipeline(*steps, OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))
    return model.fit(frame, labels_)


NOBODY = tp.Attacker((0, 0))


def test_what_nobody_knows_is_refused_and_not_guessed() -> None:
    frame = pd.DataFrame({"job": ["a", "a", "b", np.nan] * 5})
    model = tree(frame, [1, 1, 0, 1] * 5, SimpleImputer(strategy="most_frequent"))
    with pytest.raises(tp.InvalidInput, match="row 1, column 'job': the model does not know the value <NA>"):
        tp.verify(model, pd.DataFrame({"job": pd.array(["a", pd.NA], dtype="string")}), [1, 1], NOBODY)
    numbers = tree(pd.DataFrame({"c": [1, 2, 3] * 6}), ["one", "two", "three"] * 6)
    with pytest.raises(tp.InvalidInput, match="row 0, column 'c': '1' is not a number"):
        tp.verify(numbers, pd.DataFrame({"c": ["1", "2"]}), ["one", "two"], NOBODY)
    with pytest.raises(tp.InvalidInput, match="X has two columns 'job'; drop one"):
        tp.verify(model, pd.concat([frame, frame], axis=1), [1] * 20, NOBODY)


def test_the_library_is_asked_about_the_rows_as_they_are_given() -> None:
    """Where treeproof took a value for another one than the library does, that would show."""
    frame = pd.DataFrame({"job": ["a", "b", "c"] * 6})
    model = tree(frame, ["x", "y", "z"] * 6)
    ensemble = tp.from_model(model)
    seen = []

    class Source:
        def predict(self, rows: Any) -> Any:
            seen.append(rows)
            return model.predict(rows)

    import dataclasses

    watched = dataclasses.replace(ensemble, source=Source())
    tp.verify(watched, frame[:4], model.predict(frame[:4]), NOBODY)
    assert any(rows is not None and list(rows.index) == [0, 1, 2, 3] for rows in seen)

    class Refuses:
        def predict(self, rows: Any) -> Any:
            raise TypeError("boolean value of NA is ambiguous")

    with pytest.raises(tp.InvalidInput, match=r"own predict refuses these rows: TypeError: boolean value of NA"):
        tp.verify(dataclasses.replace(ensemble, source=Refuses()), frame[:4], ["x"] * 4, NOBODY)


def test_one_row_in_every_form() -> None:
    frame = pd.DataFrame({"job": ["a", "a", "b", np.nan] * 5, "city": ["x"] * 20})
    model = tree(frame, [1, 1, 0, 1] * 5, SimpleImputer(strategy="most_frequent"))
    verifier = tp.Verifier(model, tp.Attacker({"job": tp.ANY}))
    forms = ([np.nan, "x"], frame.iloc[3], frame.iloc[[3]], {"job": np.nan, "city": "x"})
    for form in forms:
        verdict = verifier.verdict(form)
        assert (verdict.stability, verdict.has_missing) == (Outcome.PROVED, True)
    broken = verifier.verdict({"job": "a", "city": "x"})
    assert broken.witness is not None
    assert broken.witness.moved == {"job": ("a", "b")}


def test_frames_keep_what_did_not_move() -> None:
    rows = X.dropna()[:60].assign(home="castle", flag=True)
    model, _ = forest()
    steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [*TEXT, "flag"]), remainder="passthrough")
    model = make_pipeline(steps, RandomForestClassifier(7, max_depth=5, random_state=0))
    trained = X.dropna().assign(flag=lambda frame: frame.age > 40)
    model.fit(trained, Y[trained.index])
    before = rows.copy()
    result = tp.verify(model, rows, model.predict(rows), tp.Attacker({"job": tp.ANY, "income": (-300, 300)}))
    found = result.attacked_frame()
    pd.testing.assert_frame_equal(rows, before)  # nobody's own memory is written to
    assert len(found) > 3
    assert (model.predict(found) != model.predict(rows[result.has_witness])).all()
    assert set(found["home"]) == {"castle"}
    assert found["flag"].dtype == bool
    assert found["age"].dtype == rows["age"].dtype
    first = int(np.flatnonzero(result.has_witness)[0])
    assert "castle" in result.witness(first).attacked.tolist()


def test_values_that_become_missing_are_missing_in_frames() -> None:
    frame = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * 40), "number": np.arange(80.0)})
    y = (frame.kind == "a").to_numpy(dtype=int)
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", min_samples_leaf=5).fit(
        frame[:60], y[:60]
    )
    attacker = tp.Attacker({"number": (-1.0, 1.0)}, blank={"kind": 1}, budget=2)
    rows = frame[60:70]
    found = tp.cheapest_attack(model, rows, attacker)
    flipped = np.isfinite(found.price)
    assert flipped.any() and found.rows.kind[flipped].isna().all()
    assert found.rows.kind[~flipped].notna().all()
    assert (model.predict(found.rows) == found.label).all()
    attacked = tp.verify(model, rows, y[60:70], attacker).attacked_frame()
    assert attacked.kind.isna().all() and len(attacked) == flipped.sum()
    truth = pd.DataFrame({"truth": [True, False]})
    moved = np.array([[True], [False]])
    category = Category((False, True), dtype="bool")
    assert changed_frame(truth, np.array([[np.nan], [0.0]]), moved, [(0, category)]).truth.tolist() == [pd.NA, False]
    assert changed_frame(truth, np.array([[0.0], [0.0]]), moved, [(0, category)]).truth.dtype == bool


def test_truth_values_that_are_moved_as_numbers_are_said() -> None:
    frame = pd.DataFrame({"flag": [True, False] * 20, "age": range(40)})
    model = RandomForestClassifier(3, random_state=0).fit(frame, [1, 0] * 20)
    with pytest.warns(UserWarning, match="compares the truth values of 'flag' as numbers"):
        tp.verify(model, frame, [1, 0] * 20, tp.Attacker.linf(0.1))


@pytest.mark.parametrize("values", [["01234", "1234", "99999"], ["?", "a", "z"], [" a", "a", "b "], ["NA", "", "1"]])
def test_files_hold_values_as_they_are_written(
    values: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = pd.Series(values * 4, dtype=object)
    tp.save_model(tree(pd.DataFrame({"c": own}), [f"is {value}" for value in values] * 4), "model.json")
    lines = ["c,label", *(f'"{value}","is {value}"' for value in values)]
    Path("rows.csv").write_text("\n".join(lines), encoding="utf-8")
    code, _, err = run(capsys, "verify", "model.json", "rows.csv", "--l0", "0", "--json", "r.json")
    assert code == 0, err
    assert tp.Verification.from_json("r.json").accuracy == 1.0
