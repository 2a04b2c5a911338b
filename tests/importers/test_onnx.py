"""ONNX graphs made by hand: every comparison, dtype and decision against onnxruntime; refusals; damaged files."""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.points import critical_rows
from tests.support.zoo.case import data
from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers import onnx as importer

onnx = pytest.importorskip("onnx")
for needed in ("onnxruntime", "onnxmltools", "skl2onnx", "lightgbm", "xgboost"):
    pytest.importorskip(needed)

from onnx import TensorProto, helper  # noqa: E402

from tests.support.zoo import onnx_cases as zoo  # noqa: E402

Attributes = dict[str, Any]
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")


def random_trees(
    rng: np.random.Generator,
    *,
    n_trees: int = 12,
    n_features: int = 3,
    class_ids: Sequence[int] = (0, 1, 2),
    modes: Sequence[str] = MODES,
    positive: bool = False,
) -> Attributes:
    """Attributes of random trees: node ids out of order, tree ids falling, weights of very different size."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    names += ("missing_value_tracks_true",)
    nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    weights: dict[str, list[Any]] = {f"class_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(n_trees):
        depth = int(rng.integers(1, 4))
        n_inner = 2**depth - 1
        ids = rng.permutation(2 * n_inner + 1)
        for i in range(2 * n_inner + 1):
            inner = i < n_inner
            row = (
                n_trees - tree,
                int(ids[i]),
                int(rng.integers(n_features)) if inner else 0,
                float(np.float32(round(rng.normal(), int(rng.integers(1, 8))))) if inner else 0.0,
                str(rng.choice(modes)) if inner else "LEAF",
                int(ids[2 * i + 1]) if inner else 0,
                int(ids[2 * i + 2]) if inner else 0,
                int(rng.integers(2)) if inner else 0,
            )
            for name, value in zip(names, row, strict=True):
                nodes[f"nodes_{name}"].append(value)
            for klass in class_ids if not inner else ():
                weight = float(np.float32(rng.normal() * 10.0 ** rng.integers(-6, 3)))
                row = (n_trees - tree, int(ids[i]), klass, abs(weight) / 500 if positive else weight)
                for name, value in zip(("treeids", "nodeids", "ids", "weights"), row, strict=True):
                    weights[f"class_{name}"].append(value)
    return nodes | weights


def classifier(
    attributes: Attributes, *, labels: Sequence[Any], kind: int = FLOAT, n_features: int = 3, post: str = "NONE"
) -> Any:
    """A model that is one TreeEnsembleClassifier."""
    attributes = dict(attributes)
    strings = isinstance(labels[0], str)
    attributes["classlabels_strings" if strings else "classlabels_int64s"] = list(labels)
    node = helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["label", "scores"], domain="ai.onnx.ml", post_transform=post, **attributes
    )
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("X", kind, [None, n_features])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING if strings else TensorProto.INT64, [None]),
            helper.make_tensor_value_info("scores", FLOAT, [None, len(labels)]),
        ],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 15)], ir_version=8
    )


def as_doubles(attributes: Attributes, rng: np.random.Generator) -> Attributes:
    """The same trees with thresholds and weights that are no float32 numbers."""
    result = dict(attributes)
    for name in ("nodes_values", "class_weights", "base_values"):
        if name in result:
            values = np.asarray(result.pop(name), dtype=np.float64) * (1 + rng.normal() * 1e-9)
            result[f"{name}_as_tensor"] = helper.make_tensor(name, DOUBLE, [len(values)], values)
    return result


def rows_of(ensemble: tp.Ensemble, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = critical_rows(ensemble, rng.normal(size=(1500, ensemble.n_features)))
    rows[rng.random(rows.shape) < 0.05] = np.nan
    return rows


def assert_same(model: Any, seed: int = 0, *, sums: bool = False) -> tp.Ensemble:
    ensemble = tp.from_model(model)
    rows = rows_of(ensemble, seed)
    expected = zoo.labels(model, rows)
    got = ensemble.predict(rows)
    assert got.dtype.kind == expected.dtype.kind or expected.dtype == object
    np.testing.assert_array_equal(got, expected)
    if sums:
        scores = np.asarray(zoo.run(model, rows)[1])
        scores = scores if scores.shape[1] > 2 else scores[:, 1:]
        np.testing.assert_array_equal(ensemble.scores(rows).astype(np.float32), scores)
    return ensemble


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
def test_random_trees_of_every_comparison(seed: int, kind: int) -> None:
    rng = np.random.default_rng(seed)
    attributes = random_trees(rng)
    if kind == DOUBLE:
        attributes = as_doubles(attributes, rng)
    assert_same(classifier(attributes, labels=[5, 6, 9], kind=kind), seed, sums=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tracks", [0, 1])
def test_one_comparison_everywhere(mode: str, tracks: int) -> None:
    attributes = random_trees(np.random.default_rng(7), modes=[mode])
    attributes["nodes_missing_value_tracks_true"] = [tracks] * len(attributes["nodes_modes"])
    assert_same(classifier(attributes, labels=[0, 1, 2]), sums=True)


@pytest.mark.parametrize("base", [None, [0.25], [0.25, 7.0]])
@pytest.mark.parametrize("positive", [True, False])
def test_two_classes_with_weights_for_the_first(base: list[float] | None, positive: bool) -> None:
    attributes = random_trees(np.random.default_rng(3), class_ids=[0], positive=positive)
    if base is not None:
        attributes["base_values"] = base
    ensemble = assert_same(classifier(attributes, labels=["n", "y"]))
    assert ensemble.rule.cut == (0.5 if positive else 0.0)


@pytest.mark.parametrize("positive", [True, False])
def test_two_classes_with_weights_for_the_second(positive: bool) -> None:
    attributes = random_trees(np.random.default_rng(4), class_ids=[1], positive=positive)
    assert_same(classifier(attributes, labels=[10, 20]), sums=True)


@pytest.mark.parametrize("labels", [[0, 1], ["n", "y"]])
def test_two_classes_with_weights_for_both_are_decided_by_the_second(labels: list[Any]) -> None:
    attributes = random_trees(np.random.default_rng(5), class_ids=[0, 1])
    assert_same(classifier(attributes, labels=labels), sums=True)


@pytest.mark.parametrize("post", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("class_ids", [[0], [0, 1, 2]])
def test_labels_are_decided_before_the_transform(post: str, class_ids: list[int]) -> None:
    attributes = random_trees(np.random.default_rng(6), class_ids=class_ids)
    assert_same(classifier(attributes, labels=[0, 1] if len(class_ids) == 1 else [0, 1, 2], post=post))


def test_base_values_of_three_classes_come_last() -> None:
    attributes = random_trees(np.random.default_rng(8)) | {"base_values": [1e6, 1e6 + 0.25, 1e6]}
    assert_same(classifier(attributes, labels=[0, 1, 2]), sums=True)


def test_class_without_weights_has_its_base_value() -> None:
    attributes = random_trees(np.random.default_rng(9), class_ids=[0, 1]) | {"base_values": [0.0, 0.0, 0.5]}
    assert_same(classifier(attributes, labels=[0, 1, 2]), sums=True)


def test_ties_go_to_the_first_class() -> None:
    attributes = random_trees(np.random.default_rng(10), n_trees=3)
    attributes["class_weights"] = [float(round(w) % 2) for w in attributes["class_weights"]]
    assert_same(classifier(attributes, labels=[0, 1, 2]), sums=True)


@pytest.mark.parametrize("n_trees", [3, 90, 300])
@pytest.mark.parametrize("class_ids", [[0], [0, 1, 2]])
def test_sums_do_not_depend_on_the_batch(n_trees: int, class_ids: list[int]) -> None:
    attributes = random_trees(np.random.default_rng(11), n_trees=n_trees, class_ids=class_ids)
    model = classifier(attributes, labels=[0, 1] if len(class_ids) == 1 else [0, 1, 2])
    ensemble = tp.from_model(model)
    rows = np.random.default_rng(12).normal(size=(6000, 3))
    scores, labels = ensemble.scores(rows), ensemble.predict(rows)
    running = zoo.session(model)
    for size in (1, 2, 40, 60, 700, 6000):
        for start in range(0, min(6000, 20 * size), size):
            got = running.run(None, {"X": rows[start : start + size].astype(np.float32)})
            np.testing.assert_array_equal(got[0], labels[start : start + size])
            expected = got[1] if len(class_ids) > 1 else got[1][:, 1:]
            np.testing.assert_array_equal(expected, scores[start : start + size])


# --- graphs around the trees ---


def insert(model: Any, *nodes: Any, initializers: Sequence[Any] = ()) -> Any:
    result = copy.deepcopy(model)
    result.graph.node.extend(nodes)
    result.graph.initializer.extend(initializers)
    return result


@pytest.fixture(scope="module")
def small() -> Any:
    return classifier(random_trees(np.random.default_rng(1), n_trees=5), labels=[0, 1, 2])


def with_input(model: Any, kind: int, *nodes: Any) -> Any:
    """The model with nodes between the graph's input "raw" and the trees' input "X"."""
    result = insert(model, *nodes)
    result.graph.input[0].CopyFrom(helper.make_tensor_value_info("raw", kind, [None, 3]))
    trees = result.graph.node[0]
    rest = list(result.graph.node)[1:]
    copied = [copy.deepcopy(node) for node in [*rest, trees]]
    del result.graph.node[:]
    result.graph.node.extend(copied)
    return result


def test_double_input_cast_to_float(small: Any) -> None:
    cast = helper.make_node("Cast", ["raw"], ["X"], to=FLOAT)
    ensemble = assert_same(with_input(small, DOUBLE, cast), sums=True)
    assert (ensemble.value_high == float(np.finfo(np.float32).max)).all()


def test_float_input_cast_to_double() -> None:
    rng = np.random.default_rng(2)
    model = classifier(as_doubles(random_trees(rng), rng), labels=[0, 1, 2], kind=DOUBLE)
    identity = helper.make_node("Identity", ["raw"], ["same"])
    cast = helper.make_node("Cast", ["same"], ["X"], to=DOUBLE)
    assert_same(with_input(model, FLOAT, identity, cast), sums=True)


def test_label_lookup_behind_the_trees(small: Any) -> None:
    table = helper.make_tensor("table", TensorProto.STRING, [3], [b"low", b"mid", b"high"])
    lookup = helper.make_node("ArrayFeatureExtractor", ["table", "label"], ["looked"], domain="ai.onnx.ml")
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
    flat = helper.make_node("Reshape", ["looked", "shape"], ["name"])
    model = insert(small, lookup, flat, initializers=[table, shape])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("name", TensorProto.STRING, [None]))
    assert assert_same(model).classes.tolist() == ["low", "mid", "high"]


def test_source_replays_labels_and_survives_pickling(small: Any) -> None:
    ensemble = tp.from_model(small)
    rows = rows_of(ensemble, 0)
    expected = ensemble.predict(rows)
    np.testing.assert_array_equal(ensemble.source.predict(rows), expected)
    again = pickle.loads(pickle.dumps(ensemble.source))
    np.testing.assert_array_equal(again.predict(rows[:1]), expected[:1])


# --- refusals ---


def changed(model: Any, change: Callable[[Any], None]) -> Any:
    result = copy.deepcopy(model)
    change(result)
    return result


def set_attribute(name: str, value: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        node = model.graph.node[0]
        kept = [copy.deepcopy(attribute) for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, *([] if value is None else [helper.make_attribute(name, value)])])

    return change


def attribute(model: Any, name: str) -> list[Any]:
    return list(helper.get_attribute_value(next(a for a in model.graph.node[0].attribute if a.name == name)))


def test_voting_is_refused(small: Any) -> None:
    with pytest.raises(InvalidInput, match="is for forests that vote"):
        tp.from_model(small, voting="soft")
    with pytest.raises(InvalidInput, match="is for forests that vote"):
        importer.load_bytes(b"", voting="hard")


def test_missing_onnx_says_what_to_install(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedModel, match=r"pip install 'treeproof\[onnx\]"):
        importer.load_bytes(b"", voting=None)


def test_part_of_a_model_is_refused(small: Any) -> None:
    with pytest.raises(UnsupportedModel, match="GraphProto is not a whole model"):
        tp.from_model(small.graph)


def test_step_before_the_trees_is_refused() -> None:
    from skl2onnx import to_onnx
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = data(2)
    model = to_onnx(make_pipeline(StandardScaler(), zoo.tree()).fit(X, y), X[:1].astype(np.float32))
    with pytest.raises(UnsupportedModel, match="passes through Scaler"):
        tp.from_model(model)


def test_model_without_trees_is_refused() -> None:
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    X, y = data(2)
    model = to_onnx(LogisticRegression().fit(X[:, :3], y), X[:1, :3].astype(np.float32))
    with pytest.raises(UnsupportedModel, match="no output is a label straight from"):
        tp.from_model(model)


def test_regression_is_refused() -> None:
    from skl2onnx import to_onnx
    from sklearn.tree import DecisionTreeRegressor

    X, y = data(2)
    model = to_onnx(DecisionTreeRegressor(max_depth=2).fit(X, y), X[:1].astype(np.float32))
    with pytest.raises(UnsupportedModel, match="TreeEnsembleRegressor"):
        tp.from_model(model)


def test_average_of_lightgbm_forest_is_refused() -> None:
    train = zoo.boosted(zoo.lgbm(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6), zoo.from_lgbm)
    with pytest.raises(UnsupportedModel, match="ArgMax"):
        tp.from_model(train(*data(2)))


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_NEQ"])
def test_equality_tests_are_refused(mode: str) -> None:
    model = classifier(random_trees(np.random.default_rng(0), modes=[mode]), labels=[0, 1, 2])
    with pytest.raises(UnsupportedModel, match=f"mode {mode}"):
        tp.from_model(model)


def test_whole_number_input_is_refused(small: Any) -> None:
    model = copy.deepcopy(small)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("X", TensorProto.INT64, [None, 3]))
    with pytest.raises(UnsupportedModel, match="element type 7"):
        tp.from_model(model)


@pytest.mark.parametrize("shape", [[None, None], [None], [None, 2**40], [None, 3, 1]])
def test_input_without_a_number_of_columns_is_refused(small: Any, shape: list[Any]) -> None:
    model = changed(small, lambda m: m.graph.input[0].CopyFrom(helper.make_tensor_value_info("X", FLOAT, shape)))
    with pytest.raises(UnsupportedModel, match="how many columns"):
        tp.from_model(model)


def test_weights_for_both_classes_with_other_labels_are_refused() -> None:
    attributes = random_trees(np.random.default_rng(0), class_ids=[0, 1])
    for labels, more in (([1, 2], {}), ([0, 1], {"base_values": [0.5]})):
        with pytest.raises(UnsupportedModel, match="do not follow the scores"):
            tp.from_model(classifier(attributes | more, labels=labels))


def test_base_values_beside_the_second_class_are_refused() -> None:
    attributes = random_trees(np.random.default_rng(0), class_ids=[1]) | {"base_values": [0.5, 0.5]}
    with pytest.raises(UnsupportedModel, match="does not add them up"):
        tp.from_model(classifier(attributes, labels=[0, 1]))


def test_class_without_weights_or_base_value_is_refused() -> None:
    attributes = random_trees(np.random.default_rng(0), class_ids=[0, 1])
    with pytest.raises(UnsupportedModel, match="class 2 gets no score"):
        tp.from_model(classifier(attributes, labels=[0, 1, 2]))


def test_single_class_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="at least 2 are needed"):
        tp.from_model(classifier(random_trees(np.random.default_rng(0), class_ids=[0]), labels=[4]))


def test_numbers_in_another_file_are_refused() -> None:
    rng = np.random.default_rng(0)
    model = classifier(as_doubles(random_trees(rng), rng), labels=[0, 1, 2], kind=DOUBLE)
    for one in model.graph.node[0].attribute:
        if one.name == "nodes_values_as_tensor":
            one.t.data_location = TensorProto.EXTERNAL
            one.t.external_data.add(key="location", value="/etc/passwd")
    with pytest.raises(UnsupportedModel, match="numbers in a separate file"):
        tp.from_model(model)


def test_malformed_trees_are_named(small: Any) -> None:
    values = attribute(small, "nodes_values")
    ids = attribute(small, "class_nodeids")
    trees = attribute(small, "nodes_treeids")
    for name, value, message in (
        ("nodes_values", values[:-1], "each needs one per node"),
        ("class_ids", attribute(small, "class_ids")[:-1], "must be equally long"),
        ("class_ids", [7, *attribute(small, "class_ids")[1:]], "classes 0 to 7"),
        ("class_nodeids", [999, *ids[1:]], "names node 999"),
        ("class_treeids", [999, *attribute(small, "class_treeids")[1:]], "tree 999, which has no nodes"),
        ("nodes_truenodeids", [999, *attribute(small, "nodes_truenodeids")[1:]], "names node 999"),
        ("nodes_nodeids", [attribute(small, "nodes_nodeids")[1], *attribute(small, "nodes_nodeids")[1:]], "same id"),
        ("nodes_treeids", [trees[-1], *trees[1:]], "not contiguous"),
        ("nodes_featureids", [-1, *attribute(small, "nodes_featureids")[1:]], "tests feature -1"),
        ("nodes_featureids", [77, *attribute(small, "nodes_featureids")[1:]], "feature 77 is out of range"),
        ("base_values", [0.5], "1 base values for 3 classes"),
        ("classlabels_int64s", [0, 1, 1], "labels must be distinct"),
        ("nodes_values", [float("nan"), *values[1:]], "not a finite number"),
    ):
        with pytest.raises(InvalidInput, match=message):
            tp.from_model(changed(small, set_attribute(name, value)))


def test_trees_with_tensor_of_another_dtype_are_refused(small: Any) -> None:
    def change(model: Any) -> None:
        values = attribute(model, "nodes_values")
        set_attribute("nodes_values", None)(model)
        set_attribute("nodes_values_as_tensor", helper.make_tensor("v", DOUBLE, [len(values)], values))(model)

    with pytest.raises(InvalidInput, match="must be a list of float32 numbers"):
        tp.from_model(changed(small, change))


def function(name: str, domain: str) -> Any:
    """A function of the model's own that takes the place of the operator of that name."""
    negate = helper.make_node("Neg", ["x"], ["y"])
    return helper.make_function(domain, name, ["x"], ["y"], [negate], [helper.make_opsetid("", 15)])


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "evil"])
@pytest.mark.parametrize("name", ["Identity", "TreeEnsembleClassifier", "Unused"])
def test_functions_of_the_models_own_are_refused(small: Any, name: str, domain: str) -> None:
    with pytest.raises(UnsupportedModel, match="the model has functions"):
        tp.from_model(changed(small, lambda model: model.functions.append(function(name, domain))))


def before(model: Any, op: str, kind: int = FLOAT, **more: Any) -> Any:
    return with_input(model, kind, helper.make_node(op, ["raw"], ["X"], **more))


def test_operators_of_other_domains_are_refused(small: Any) -> None:
    for model in (
        before(small, "Identity", domain="evil"),
        before(small, "Identity", domain="ai.onnx.ml"),
        before(small, "Cast", DOUBLE, domain="evil", to=FLOAT),
        changed(small, lambda model: setattr(model.graph.node[0], "domain", "")),
        changed(small, lambda model: setattr(model.graph.node[0], "domain", "evil")),
    ):
        with pytest.raises(UnsupportedModel, match="which is not ONNX's own"):
            tp.from_model(model)


def test_two_casts_before_the_trees_are_refused(small: Any) -> None:
    casts = [
        helper.make_node("Cast", [a], [b], to=kind) for a, b, kind in (("raw", "wide", DOUBLE), ("wide", "X", FLOAT))
    ]
    with pytest.raises(UnsupportedModel, match="passes through Cast"):
        tp.from_model(with_input(small, FLOAT, *casts))


def test_a_model_without_the_operators_of_trees_is_refused(small: Any) -> None:
    with pytest.raises(UnsupportedModel, match=r"does not import the operators of ai\.onnx\.ml"):
        tp.from_model(changed(small, lambda model: model.opset_import.pop(0)))


def test_what_is_defined_twice_is_refused(small: Any) -> None:
    tensor = helper.make_tensor("X", FLOAT, [1, 3], [0.0, 0.0, 0.0])
    shadow = helper.make_tensor("label", TensorProto.INT64, [1], [2])
    for message, change in (
        ("value 'X'", lambda model: model.graph.initializer.append(tensor)),
        ("value 'label'", lambda model: model.graph.initializer.append(shadow)),
        ("value 'label'", lambda model: model.graph.node.add().CopyFrom(model.graph.node[0])),
        ("value 'X'", lambda model: model.graph.input.add().CopyFrom(model.graph.input[0])),
        ("output 'label'", lambda model: model.graph.output.add().CopyFrom(model.graph.output[0])),
        ("attribute 'nodes_values'", lambda model: repeat(model, "nodes_values")),
    ):
        with pytest.raises(InvalidInput, match=f"2 definitions of the {message}"):
            tp.from_model(changed(small, change))


def repeat(model: Any, name: str) -> None:
    node = model.graph.node[0]
    again = copy.deepcopy(next(attribute for attribute in node.attribute if attribute.name == name))
    again.floats[0] += 1
    node.attribute.append(again)


def test_attributes_that_trees_do_not_have_are_refused(small: Any) -> None:
    with pytest.raises(UnsupportedModel, match="the attribute 'aggregate_function'"):
        tp.from_model(changed(small, set_attribute("aggregate_function", "MIN")))
    with pytest.raises(UnsupportedModel, match="post_transform b'LOG' is unknown"):
        tp.from_model(changed(small, set_attribute("post_transform", "LOG")))

    def as_ints(model: Any) -> None:
        next(one for one in model.graph.node[0].attribute if one.name == "nodes_values").type = 7

    with pytest.raises(InvalidInput, match="'nodes_values' of a TreeEnsembleClassifier is not of its type"):
        tp.from_model(changed(small, as_ints))


def test_tree_ids_that_onnxruntime_takes_for_others_are_refused(small: Any) -> None:
    for shift in (2**32, -100):
        ids = {name: [one + shift for one in attribute(small, name)] for name in ("nodes_treeids", "class_treeids")}
        model = copy.deepcopy(small)
        for name, values in ids.items():
            set_attribute(name, values)(model)
        with pytest.raises(InvalidInput, match="ids must be from 0"):
            tp.from_model(model)


def test_parts_of_a_graph_that_trees_do_not_need_are_refused(small: Any) -> None:
    extra = helper.make_tensor_value_info("other", FLOAT, [None, 3])
    for message, change in (
        ("takes 2 inputs", lambda model: model.graph.input.append(extra)),
        ("has training_info", lambda model: model.training_info.add()),
        ("has a sparse_initializer", lambda model: model.graph.sparse_initializer.add()),
        ("has a quantization_annotation", lambda model: model.graph.quantization_annotation.add()),
    ):
        with pytest.raises(UnsupportedModel, match=message):
            tp.from_model(changed(small, change))


def behind(model: Any, node: Any, kind: int, *tensors: Any) -> Any:
    """The model with one more node between the label of the trees and the output."""
    result = insert(model, node, initializers=tensors)
    result.graph.output[0].CopyFrom(helper.make_tensor_value_info(node.output[0], kind, None))
    return result


def test_labels_that_are_changed_on_their_way_out_are_refused(small: Any) -> None:
    table = helper.make_tensor("table", TensorProto.INT64, [2, 3], [0, 1, 2, 2, 1, 0])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 3])
    looked = helper.make_node("ArrayFeatureExtractor", ["table", "label"], ["out"], domain="ai.onnx.ml")
    for model, message in (
        (behind(small, looked, TensorProto.INT64, table), r"a table of shape \(2, 3\)"),
        (behind(small, helper.make_node("Reshape", ["label", "shape"], ["out"]), 7, shape), r"reshaped to \[-1, 3\]"),
        (behind(small, helper.make_node("Cast", ["label"], ["out"], to=7, by=1), 7), "the attribute 'by'"),
        (behind(small, helper.make_node("Identity", ["label"], ["out"], domain="evil"), 7), "not ONNX's own"),
    ):
        with pytest.raises(UnsupportedModel, match=message):
            tp.from_model(model)
    twice = copy.deepcopy(small)
    twice.graph.node.append(helper.make_node("Identity", ["label"], ["again"]))
    twice.graph.output.append(helper.make_tensor_value_info("again", TensorProto.INT64, [None]))
    with pytest.raises(UnsupportedModel, match="2 outputs are labels"):
        tp.from_model(twice)


def test_tensor_that_states_its_numbers_twice_is_refused() -> None:
    rng = np.random.default_rng(0)
    model = classifier(as_doubles(random_trees(rng), rng), labels=[0, 1, 2], kind=DOUBLE)
    tensor = next(one.t for one in model.graph.node[0].attribute if one.name == "nodes_values_as_tensor")
    tensor.raw_data = np.zeros(len(tensor.double_data)).tobytes()
    with pytest.raises(InvalidInput, match="states its numbers twice"):
        tp.from_model(model)


def test_label_with_a_nul_is_refused() -> None:
    """NumPy would drop it from the end of the label."""
    model = classifier(random_trees(np.random.default_rng(0)), labels=["a", "b", "c\0"])
    with pytest.raises(InvalidInput, match="not text"):
        tp.from_model(model)


def test_mutated_file_is_refused_or_read_but_never_leaks(small: Any, tmp_path: Path) -> None:
    rng = random.Random(0)
    doubles = np.random.default_rng(0)
    wide = classifier(as_doubles(random_trees(doubles, n_trees=2), doubles), labels=["a", "b", "c"], kind=DOUBLE)
    goods = [small.SerializeToString(), wide.SerializeToString(), zoo.scikit(zoo.tree)(*data(2)).SerializeToString()]
    file = tmp_path / "model.onnx"
    for _ in range(3000):
        mutant = bytearray(rng.choice(goods))
        for _ in range(rng.choice((1, 1, 2, 8))):
            place = rng.randrange(len(mutant))
            match rng.randrange(4):
                case 0:
                    mutant[place] ^= 1 << rng.randrange(8)
                case 1:
                    mutant[place] = rng.choice((0, 1, 127, 128, 255))
                case 2:
                    del mutant[place : place + rng.choice((1, 4, 50))]
                case 3:
                    mutant[place:place] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4))))
        file.write_bytes(bytes(mutant) or b"x")
        with contextlib.suppress(InvalidInput, UnsupportedModel):
            ensemble = tp.load_model(file)
            ensemble.predict(np.zeros((2, ensemble.n_features)))
