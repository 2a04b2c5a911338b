"""skops files that somebody edited: what scikit-learn would compute otherwise, or crash on, is refused by name."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.zoo.case import data
from treeproof.importers import skops as importer

skops_io = pytest.importorskip("skops.io")

X, y = data(3)
Files = dict[str, bytes]


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object that a schema describes, from the outside in."""
    if isinstance(schema, dict):
        if "__loader__" in schema:
            yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)


def fields_of(schema: Any, kind: str) -> dict[str, Any]:
    """The fields of the first object of this class."""
    node = next(node for node in parts(schema) if node["__class__"] == kind and "content" in node)
    return node["content"]["content"]


def plain(value: Any) -> dict[str, Any]:
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "is_json": True,
    }


def put(kind: str, name: str, value: Any) -> Callable[[Any, Files], None]:
    """Sets a field of the first object of a class, to a plain value or to another part of the file."""

    def change(schema: Any, files: Files) -> None:
        node = next(node for node in parts(schema) if node["__class__"] == kind and "content" in node)
        content = node["content"]
        if name not in content["content"]:
            content["key_types"]["content"].append(dict(content["key_types"]["content"][0]))
        content["content"][name] = value(schema) if callable(value) else plain(value)

    return change


def array(kind: str, name: str, change_array: Callable[[np.ndarray], Any]) -> Callable[[Any, Files], None]:
    """Changes an array that is a field of the first object of a class."""

    def change(schema: Any, files: Files) -> None:
        file = fields_of(schema, kind)[name]["file"]
        values = np.load(io.BytesIO(files[file]))
        result = change_array(values)
        out = io.BytesIO()
        np.save(out, values if result is None else result)
        files[file] = out.getvalue()

    return change


def set_node(field: str, value: Any) -> Callable[[np.ndarray], None]:
    def change(nodes: np.ndarray) -> None:
        nodes[field][0] = value

    return change


def edited(model: Any, change: Callable[[Any, Files], None], folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(model))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(files["schema.json"])
    change(schema, files)
    return packed(files | {"schema.json": json.dumps(schema).encode()}, folder)


def packed(files: Files, folder: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    file = folder / "model.skops"
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


TREE = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
FOREST = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
BAGGING = BaggingClassifier(TREE, 3, max_features=3, random_state=0).fit(X, y)
ADABOOST = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0).fit(X, y)
BOOSTING = GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(X, y)
HISTOGRAM = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4, random_state=0).fit(X, y)
SCALED = make_pipeline(StandardScaler(), TREE).fit(X, y)
CLIPPED = make_pipeline(MinMaxScaler(clip=True), TREE).fit(X, y)
FROZEN = FrozenEstimator(TREE)


def another_part(kind: str) -> Callable[[Any], Any]:
    return lambda schema: next(node for node in parts(schema) if node["__class__"] == kind)


EDITS: dict[str, tuple[Any, Callable[[Any, Files], None], str]] = {
    "categories in a node": (
        HISTOGRAM,
        array("TreePredictor", "nodes", set_node("is_categorical", 1)),
        "tests numbers where the model has categories, or the other way round",
    ),
    "a histogram node before the first feature": (
        HISTOGRAM,
        array("TreePredictor", "nodes", set_node("feature_idx", -1)),
        "tests a feature outside 0 to 4",
    ),
    "an encoder before the trees": (
        HISTOGRAM,
        put("HistGradientBoostingClassifier", "_preprocessor", another_part("_BinMapper")),
        "is_categorical_ of this HistGradientBoostingClassifier is not one truth value per column",
    ),
    "binned rows": (HISTOGRAM, put("HistGradientBoostingClassifier", "_in_fit", True), "_in_fit"),
    "a baseline of float32": (
        HISTOGRAM,
        array("HistGradientBoostingClassifier", "_baseline_prediction", lambda base: base.astype(np.float32)),
        "_baseline_prediction is not an array",
    ),
    "another number of scores": (
        HISTOGRAM,
        put("HistGradientBoostingClassifier", "n_trees_per_iteration_", 1),
        "n_trees_per_iteration_ is 1, expected 3",
    ),
    "another number of classes": (ADABOOST, put("AdaBoostClassifier", "n_classes_", 2), "n_classes_ 2"),
    "weights of float32": (
        ADABOOST,
        array("AdaBoostClassifier", "estimator_weights_", lambda weights: weights.astype(np.float32)),
        "estimator_weights_ is not an array",
    ),
    "a forest with fewer classes": (FOREST, put("RandomForestClassifier", "n_classes_", 2), "n_classes_ 2"),
    "a forest of two outputs": (FOREST, put("RandomForestClassifier", "n_outputs_", 2), "n_outputs_ 2"),
    "a member that is no tree": (
        FOREST,
        lambda schema, files: fields_of(schema, "RandomForestClassifier")["estimators_"]["content"].__setitem__(
            0, plain("tree")
        ),
        "a member of type str",
    ),
    "bagging that counts fewer members": (BAGGING, put("BaggingClassifier", "n_estimators", 2), "n_estimators=2 and 3"),
    "another initial score": (BOOSTING, put("DummyClassifier", "_strategy", "stratified"), "vary from row to row"),
    "a learning rate in quotes": (BOOSTING, put("GradientBoostingClassifier", "learning_rate", "1"), "learning_rate"),
    "a start that scikit-learn does not know": (
        BOOSTING,
        put("GradientBoostingClassifier", "init_", "one"),
        "starts from init=one",
    ),
    "a predict of its own": (TREE, put("DecisionTreeClassifier", "predict", 1), "a predict of its own"),
    "a check of its own": (TREE, put("DecisionTreeClassifier", "_validate_X_predict", 1), "of its own"),
    "a frozen predict": (FROZEN, put("FrozenEstimator", "predict", 1), "a predict of its own"),
    "a transform of its own": (SCALED, put("StandardScaler", "transform", 1), "a transform of its own"),
    "an inner node with feature -2": (TREE, array("Tree", "nodes", set_node("feature", -2)), "tests feature -2"),
    "an inner node with feature 7": (TREE, array("Tree", "nodes", set_node("feature", 7)), "tests feature 7"),
    "a left child of -2": (TREE, array("Tree", "nodes", set_node("left_child", -2)), "left child -2"),
    "a child of 10**12": (TREE, array("Tree", "nodes", set_node("left_child", 10**12)), "out of range"),
    "nodes that are a number": (
        TREE,
        lambda schema, files: fields_of(schema, "Tree")["nodes"].update({"__class__": "int64"}),
        "where it needs an array",
    ),
    "a scaler with one number for all": (
        SCALED,
        array("StandardScaler", "scale_", lambda scale: scale[:1]),
        "one number per feature",
    ),
    "a scaler by row": (
        SCALED,
        array("StandardScaler", "mean_", lambda mean: mean.reshape(-1, 1)),
        "one number per feature",
    ),
    "a scaler without a mean": (
        SCALED,
        array("StandardScaler", "mean_", lambda mean: mean * np.nan),
        "shifts by a number that is not finite",
    ),
    "clipping to nothing": (
        CLIPPED,
        lambda schema, files: fields_of(schema, "MinMaxScaler")["feature_range"]["content"].reverse(),
        r"clips to \(1, 0\)",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_field_is_refused_by_name(name: str, tmp_path: Path) -> None:
    model, change, message = EDITS[name]
    with pytest.raises((tp.InvalidInput, tp.UnsupportedModel), match=message):
        tp.load_model(edited(model, change, tmp_path))


@pytest.mark.parametrize("model", [TREE, FOREST, BAGGING, ADABOOST, BOOSTING, HISTOGRAM, SCALED, CLIPPED, FROZEN])
def test_the_same_files_unedited_are_read(model: Any, tmp_path: Path) -> None:
    ensemble = tp.load_model(edited(model, lambda schema, files: None, tmp_path))
    assert (ensemble.predict(X) == model.predict(X)).all()


def test_a_tree_with_more_outputs_than_it_has_numbers_for_is_refused(tmp_path: Path) -> None:
    def change(schema: Any, files: Files) -> None:
        tree = next(node for node in parts(schema) if node["__loader__"] == "TreeNode")
        tree["__reduce__"]["args"]["content"][2] = plain(10**6)

    with pytest.raises(tp.InvalidInput, match="does not fit it"):
        tp.load_model(edited(TREE, change, tmp_path))


def test_two_objects_with_one_id_are_refused_where_sizes_depend_on_them(tmp_path: Path) -> None:
    """skops builds the first and uses it for both, so what stands at the second would not be what is used."""

    def change(schema: Any, files: Files) -> None:
        tree = next(node for node in parts(schema) if node["__loader__"] == "TreeNode")
        fields = fields_of(schema, "DecisionTreeClassifier")
        fields["criterion"] = plain(10**6) | {"__id__": tree["__reduce__"]["args"]["content"][2]["__id__"]}

    with pytest.raises(tp.InvalidInput, match="two different objects have the id"):
        tp.load_model(edited(TREE, change, tmp_path))


@pytest.mark.parametrize("loader", ["MethodNode", "OperatorFuncNode", "PartialNode", "FunctionNode", "CachedNode"])
def test_nodes_that_call_something_are_refused_before_skops_sees_them(
    loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skops_io, "get_untrusted_types", lambda **_: pytest.fail("skops was asked"))
    node = {"__class__": "len", "__module__": "builtins", "__loader__": loader, "content": {}}
    change = put("DecisionTreeClassifier", "criterion", lambda schema: node)
    with pytest.raises(tp.UnsupportedModel, match=f"contains a {loader}"):
        tp.load_model(edited(TREE, change, tmp_path))


def test_skops_itself_refuses_methods_and_operators() -> None:
    """The oldest version that pyproject.toml allows does; 0.11 trusted them."""

    class Owner:
        def method(self) -> None: ...

    for owner in (Owner().method, __import__("operator").methodcaller("lower")):
        assert skops_io.get_untrusted_types(data=skops_io.dumps([owner]))


@pytest.mark.slow
def test_blanks_that_unpack_to_more_than_memory_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.skops"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("schema.json", "w") as entry,
    ):
        for _ in range(300):
            entry.write(b" " * 2**20)
    with pytest.raises(tp.InvalidInput, match="unpacks to 314572800 bytes; at most 268435456"):
        tp.load_model(file)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_UNPACKED", 2**20)
    with pytest.raises(tp.InvalidInput, match="unpacks to 2097152 bytes; at most 1048576"):
        tp.load_model(packed({"schema.json": b" " * 2**21}, tmp_path, zipfile.ZIP_DEFLATED))


def contents() -> Files:
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(TREE))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_entry_that_stands_twice_is_refused(tmp_path: Path) -> None:
    file = packed(contents(), tmp_path)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("schema.json", "{}")
    with pytest.raises(tp.InvalidInput, match="two of its entries are named 'schema.json'"):
        tp.load_model(file)


def test_methods_that_unpack_without_a_limit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="packed with method 12; use deflate"):
        tp.load_model(packed(contents(), tmp_path, zipfile.ZIP_BZIP2))


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    file = packed(contents(), tmp_path)
    data = bytearray(file.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(mark)
        while start >= 0:
            data[start + place] |= 1
            start = data.find(mark, start + 1)
    file.write_bytes(data)
    with pytest.raises(tp.InvalidInput, match="encrypted"):
        tp.load_model(file)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", "claims to be an array of shape"),
        (b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "claims to be an array of shape"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), '''", "TokenError|SyntaxError|ValueError"),
        (b"[" * 900, "TokenError|MemoryError|SyntaxError"),
    ],
)
def test_arrays_that_are_not_what_they_claim_are_refused(header: bytes, message: str, tmp_path: Path) -> None:
    def change(schema: Any, files: Files) -> None:
        file = fields_of(schema, "DecisionTreeClassifier")["classes_"]["file"]
        files[file] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)

    with pytest.raises(tp.InvalidInput, match=message):
        tp.load_model(edited(TREE, change, tmp_path))


@pytest.mark.parametrize(
    "schema", [b"[" * 100_000, b"\xff\xfe", b"{}", b"[]", b'{"protocol": 2, "__loader__": "JsonNode"}', b'"\\ud800"']
)
def test_a_schema_that_is_none_is_refused_in_one_line(schema: bytes, tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="not a valid skops file"):
        tp.load_model(packed({"schema.json": schema}, tmp_path))
