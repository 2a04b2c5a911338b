"""Frames, arrays and lists: what they hold is what the library's own predict takes it for, or a refusal by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.model.columns import Category
from treeproof.tables.readers import read_table
from treeproof.training import RobustForestClassifier

pd = pytest.importorskip("pandas")

NOBODY = tp.Attacker((0, 0))
VALUES: list[list[Any]] = [[1, 2, 0], [2, 4, 6], [1.5, 2.5, 3.5], [True, False], ["1", "2", "0"], [1, 2, "a"]]


def answers(model: Any, door: str, rows: Any) -> list[Any]:
    """The labels at one of the doors."""
    ensemble = tp.from_model(model)
    if door == "predict":
        return list(ensemble.predict(rows).tolist())
    if door == "verify":
        result = tp.verify(model, rows, [ensemble.classes[0]] * len(rows), NOBODY)
        assert ensemble.predict(result.X).tolist() == result.predicted.tolist()  # rows of results are codes
        return list(result.predicted.tolist())
    guard = tp.GuardedClassifier(FrozenEstimator(model), NOBODY).fit()
    return list(guard.predict(rows).tolist())


@pytest.mark.parametrize("door", ["predict", "verify"])
@pytest.mark.parametrize("values", VALUES, ids=str)
@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(handle_unknown="ignore"), OneHotEncoder(), OrdinalEncoder()], ids=str
)
def test_an_array_holds_values_as_the_library_takes_them(door: str, values: list[Any], encoder: Any) -> None:
    frame = pd.DataFrame({"c": values * 4}, dtype=object if "a" in values else None)
    labels = np.arange(len(frame)) % len(values)
    asked = [np.array([[v] for v in values]), np.array([[v] for v in values], dtype=object), [[v] for v in values]]
    asked += [np.array([[0], [1], [2]]), np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [np.nan]]), [["1"], ["2"]]]
    for train in (frame, frame.to_numpy()):
        try:
            model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(train, labels)
        except TypeError:  # text beside numbers in one column
            continue
        for rows in asked:
            try:
                wanted = model.predict(rows).tolist()
            except (TypeError, ValueError):  # nothing to compare with
                continue
            try:
                assert answers(model, door, rows) == wanted, rows
            except tp.InvalidInput as error:
                assert "row" in str(error) or "own predict refuses" in str(error)
                assert not any(rows is each for each in asked[:2] if "a" not in values), error


def test_libraries_that_take_codes_get_codes() -> None:
    frame = pd.DataFrame({"c": pd.Series([4, 2, 6] * 20).astype("category"), "x": np.arange(60.0)})
    labels = (frame.c == 2).to_numpy().astype(int)
    codes = np.column_stack((frame.c.cat.codes, frame.x)).astype(float)
    robust = RobustForestClassifier(NOBODY, n_estimators=2, random_state=0).fit(frame, labels)
    assert tp.from_model(robust).predict(codes).tolist() == robust.predict(codes).tolist()
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1).fit(frame, labels)
    assert tp.from_model(model).predict(codes).tolist() == model.predict(codes).tolist()
    assert tp.verify(model, codes, labels, NOBODY).predicted.tolist() == model.predict(codes).tolist()


def test_whole_numbers_that_are_no_doubles_are_no_categories_of_a_pipeline() -> None:
    frame = pd.DataFrame({"c": [3, 2**53, 2**53 + 1] * 4})
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(frame, [0, 1, 0] * 4)
    with pytest.raises(tp.UnsupportedModel, match=f"the category {2**53 + 1}, which is no double; encode it as text"):
        tp.from_model(model)
    known = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))
    known.fit(frame.iloc[[0, 1] * 4], [0, 1] * 4)
    assert known.predict(frame[:3]).tolist() == [0, 1, 0]
    with pytest.raises(tp.InvalidInput, match=f"row 2, column 'c': .*{2**53 + 1}.* is a category, but no double"):
        tp.from_model(known).predict(frame[:3])


@pytest.mark.parametrize(
    "values", [np.array(["a", "b"]), np.array([1, 2]), np.array([1.5, 2.5]), np.array([True, False])]
)
def test_categories_of_numpy_are_saved_as_they_are(values: Any, tmp_path: Path) -> None:
    plain, own = (Category(tuple(given)) for given in (values.tolist(), values))
    assert plain == own and [type(value) for value in plain.values] == [type(value) for value in own.values]
    builder = tp.importers.EnsembleBuilder(n_features=1, classes=[0, 1], categories={0: own})
    builder.add_tree(
        feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1], scores=np.eye(3)[:, 1:]
    )
    tp.save_model(builder.build(), tmp_path / "m.json")
    assert tp.load_model(tmp_path / "m.json").fingerprint == builder.build().fingerprint


def test_types_that_a_model_refuses_are_saved_with_it(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": np.arange(20) / 7, "b": np.arange(20.0)})
    steps = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
    ensemble = tp.from_model(steps.fit(rows, np.arange(20) % 2))
    tp.save_model(ensemble, tmp_path / "m.json")
    loaded = tp.load_model(tmp_path / "m.json")
    assert loaded.columns == ensemble.columns and any(column.refused for column in loaded.columns)
    for one in (ensemble, loaded):
        with pytest.raises(tp.InvalidInput, match="column 'a' is of type float32"):
            one.predict(rows.astype("float32"))
        with pytest.raises(tp.InvalidInput, match="column 'a' is of type float32"):
            one.predict(rows.to_numpy(dtype=np.float32))


def test_two_columns_of_one_name_are_refused_in_one_line() -> None:
    twice = pd.DataFrame(np.eye(4)[:, :2], columns=["a", "a"])
    model = DecisionTreeClassifier().fit(twice.to_numpy(), [0, 1, 0, 1])
    piped = make_pipeline(FunctionTransformer(), DecisionTreeClassifier()).fit(twice.to_numpy(), [0, 1, 0, 1])
    for one in (model, piped):
        for door in ("predict", "verify", "guard"):
            with pytest.raises(tp.InvalidInput, match="^X has two columns 'a'; drop one$"):
                answers(one, door, twice)


def test_numbers_that_an_encoder_refuses_are_refused() -> None:
    X = np.array([[-1.4], [0.0], [2.5]] * 8)
    pipe = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(X, [0, 1, 0] * 8)
    model = tp.from_model(pipe)
    assert (model.predict(X) == pipe.predict(X)).all()
    for other in (5e-324, 1.0, -1.3999999999999997):
        with pytest.raises(ValueError, match="unknown categories"):
            pipe.predict([[other]])
        with pytest.raises(tp.InvalidInput, match="row 0, column 0: the model does not know the value"):
            model.predict([[other]])


def test_types_that_steps_compute_with_are_refused_in_lists_and_files_too(tmp_path: Path) -> None:
    X = np.array([[1.5], [1.2], [2.5], [3.0], [10.0], [20.0]])
    pipe = make_pipeline(FunctionTransformer(np.reciprocal), DecisionTreeClassifier(random_state=0))
    model = tp.from_model(pipe.fit(X, [1, 1, 1, 1, 0, 0]))
    assert pipe.predict([[2]]) != pipe.predict([[2.0]]) == model.predict([[2.0]])
    with pytest.raises(tp.InvalidInput, match="column 0 is of type int64"):
        model.predict([[2]])
    frame = pd.DataFrame({"0": [2, 3]})
    frame.to_csv(tmp_path / "whole.csv", index=False)
    frame.to_parquet(tmp_path / "whole.parquet")
    for name in ("whole.csv", "whole.parquet"):
        with pytest.raises(tp.InvalidInput, match="is of type int64"):
            read_table(tmp_path / name).rows(model)
    frame.astype(float).assign(**{"0": [2.5, 3.0]}).to_csv(tmp_path / "parts.csv", index=False)
    assert read_table(tmp_path / "parts.csv").rows(model).tolist() == [[2.5], [3.0]]


def test_times_are_no_missing_numbers() -> None:
    model = tp.from_model(DecisionTreeClassifier().fit([[1.0], [2.0], [np.nan], [-5.0]], [0, 0, 0, 1]))
    for X in (np.array([["NaT"]], dtype="M8[s]"), pd.DataFrame({"a": pd.to_datetime([None, None])})):
        with pytest.raises(tp.InvalidInput, match="row 0, column .*NaT.* is not a number"):
            model.predict(X)


def test_words_for_what_is_missing_are_text_in_files_that_have_types(tmp_path: Path) -> None:
    X = pd.DataFrame({"a": pd.Series(["a", "b", np.nan] * 5, dtype=object)})
    pipe = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))
    model = tp.from_model(pipe.fit(X, [0, 0, 1] * 5))
    pd.DataFrame({"a": ["NA", "None", "nan", "a", ""]}).to_parquet(tmp_path / "n.parquet")
    rows = read_table(tmp_path / "n.parquet").rows(model)
    assert (model.predict(rows) == pipe.predict(pd.read_parquet(tmp_path / "n.parquet"))).all()


def test_arrays_are_refused_where_steps_find_columns_by_their_names() -> None:
    frame = pd.DataFrame({"n": [1.0, 2.0, 3.0] * 8, "x": np.arange(24.0)})
    for columns in (["n"], [0]):
        steps = ColumnTransformer([("scale", StandardScaler(), columns)], remainder="passthrough")
        model = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(frame, np.arange(24) % 2)
        ensemble = tp.from_model(model)
        assert ensemble.predict(frame).tolist() == model.predict(frame).tolist()
        for rows in (frame.to_numpy(), frame.to_numpy().tolist()):
            if columns == [0]:
                assert ensemble.predict(rows).tolist() == model.predict(rows).tolist()
                continue
            with pytest.raises(ValueError, match="only supported for dataframes"):
                model.predict(rows)
            with pytest.raises(tp.InvalidInput, match="finds columns by their names; pass a data frame with 'n', 'x'"):
                ensemble.predict(rows)


@pytest.mark.parametrize(
    ("step", "odd", "name"),
    [
        (SimpleImputer(strategy="most_frequent"), [True, False], "bool"),
        (SimpleImputer(strategy="most_frequent"), pd.Series([None, 2.0], dtype=object), "object"),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), [True, False], "bool"),
    ],
)
def test_types_that_steps_fail_at_are_refused(step: Any, odd: Any, name: str) -> None:
    frame = pd.DataFrame({"n": [3.0, 2.0, 5.0, np.nan] * 6})
    model = make_pipeline(step, OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))
    model.fit(frame.dropna(), np.arange(18) % 3)
    with pytest.raises(tp.InvalidInput, match=f"column 'n' is of type {name}"):
        tp.from_model(model).predict(pd.DataFrame({"n": odd}))


def test_lists_hold_codes_where_arrays_do() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    frame = pd.DataFrame({"c": pd.Series([4, 2, 1] * 20).astype("category"), "x": np.arange(60.0)})
    settings = {"n_estimators": 3, "min_child_samples": 2, "min_data_per_group": 1, "cat_smooth": 0, "n_jobs": 1}
    model = lightgbm.LGBMClassifier(verbose=-1, **settings).fit(frame, (frame.c == 2).astype(int))
    codes = np.column_stack((frame.c.cat.codes, frame.x)).astype(float)
    assert tp.from_model(model).predict(codes.tolist()).tolist() == model.predict(codes).tolist()


@pytest.mark.parametrize("missing", [None, np.nan])
def test_what_is_missing_in_a_file_is_what_pandas_reads(missing: Any, tmp_path: Path) -> None:
    X = pd.DataFrame({"a": pd.Series(["a", "b", missing] * 5, dtype=object)})
    pipe = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))
    model = tp.from_model(pipe.fit(X, [0, 0, 1] * 5))
    X.to_csv(tmp_path / "m.csv", index=False, na_rep="NA")
    X.to_parquet(tmp_path / "m.parquet")
    for name, read in (("m.csv", pd.read_csv), ("m.parquet", pd.read_parquet)):
        rows = read_table(tmp_path / name).rows(model)
        assert (model.predict(rows) == pipe.predict(read(tmp_path / name))).all()


def test_text_in_arrays_of_models_that_take_codes_is_no_value() -> None:
    xgboost = pytest.importorskip("xgboost")
    text = pd.Categorical(["1234", "01234"] * 20, categories=["1234", "01234"])
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0] * 10, "k": text})
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, min_child_weight=0, n_jobs=1)
    ensemble = tp.from_model(model.fit(X, [1, 0] * 20))
    # XGBoost makes the number 1234 of it, a code that it never saw.
    with pytest.raises(tp.InvalidInput, match="'1234' is not a number"):
        ensemble.predict(np.array([[0.0, "1234"]], dtype=object))
    codes = np.array([[0.0, 0], [0.0, 1]], dtype=object)
    assert ensemble.predict(codes).tolist() == ensemble.predict(X[:2]).tolist() == [1, 0]
    handed_out = tp.verify(ensemble, X[:2], [1, 0], tp.Attacker.l0(1)).X
    assert ensemble.predict(handed_out).tolist() == [1, 0]


def test_sparse_frames_with_missing_values_are_refused_and_others_are_not() -> None:
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0] * 4})
    ensemble = tp.from_model(DecisionTreeClassifier(random_state=0).fit(X, [0, 0, 0, 1]))
    sparse = X.astype(pd.SparseDtype("float64", 0.0))
    assert ensemble.predict(sparse).tolist() == ensemble.source.predict(sparse).tolist()
    sparse = X.replace(1.0, np.nan).astype(pd.SparseDtype("float64", 0.0))
    # scikit-learn's trees see nothing missing in the sparse matrix that is made of it.
    assert ensemble.source.predict(sparse).tolist() != ensemble.source.predict(sparse.sparse.to_dense()).tolist()
    with pytest.raises(tp.InvalidInput, match=r"to_dense"):
        ensemble.predict(sparse)


def test_files_of_nothing_but_gaps_are_refused_where_none_and_nan_are_two_things(tmp_path: Path) -> None:
    X = pd.DataFrame({"k": pd.Series(["a", "b", None] * 10, dtype=object)})
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-2)
    model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(X, [0, 1, 2] * 10)
    ensemble = tp.from_model(model)
    # A column of objects and one of text may look alike once nothing is in them, and pandas reads None or NaN.
    pd.DataFrame({"k": pd.Series([None, None], dtype=object)}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(tp.InvalidInput, match="tells None from NaN"):
        read_table(tmp_path / "rows.parquet").rows(ensemble)
    assert ensemble.predict(X[2:3]).tolist() == [2]
