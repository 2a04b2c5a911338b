"""skops files: scikit-learn models saved without pickle.

A file is looked through before skops builds anything from it: what it unpacks to, which kinds of objects it asks for,
and whether arrays and trees are as large as they claim. scikit-learn believes all of that.
"""

from __future__ import annotations

import io
import json
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._refusals import library
from treeproof.importers.registry import Voting, from_model
from treeproof.model.ensemble import Ensemble

# Types that skops does not trust by itself but that hold nothing but numbers. A forged `Tree` could make
# scikit-learn read outside its arrays; its sizes are checked here, and the builder checks every node before anything
# predicts with it.
_HARMLESS = frozenset(
    {
        # scikit-learn before 1.7 gives these classes the bare module name `_loss`.
        "_loss.CyExponentialLoss",
        "_loss.CyHalfBinomialLoss",
        "_loss.CyHalfMultinomialLoss",
        "sklearn._loss._loss.CyExponentialLoss",
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.HalfLogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.link.Interval",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
        # Histogram gradient boosting encodes categories with a ColumnTransformer, whose list of other columns this is
        # before scikit-learn 1.7, and checks the numbers beside them.
        "sklearn.compose._column_transformer._RemainderColsList",
        "functools.partial",
        "sklearn.utils.validation.check_array",
        "sklearn.utils._bunch.Bunch",
        # What ColumnTransformer chooses columns by, and the types that this names.
        "sklearn.compose._column_transformer.make_column_selector",
        "builtins.object",
        "numpy.object_",
        "numpy.number",
        "numpy.floating",
        "numpy.integer",
    }
)

# What the parts of a file may be. The others call functions and methods, which no model that treeproof reads needs;
# a partial calls nothing until it is used, and the only function that may be named is check_array.
_LOADERS = frozenset(
    {
        "DTypeNode",
        "DictNode",
        "FunctionNode",
        "JsonNode",
        "ListNode",
        "LossNode",
        "MaskedArrayNode",
        "NdArrayNode",
        "ObjectNode",
        "PartialNode",
        "RandomGeneratorNode",
        "RandomStateNode",
        "SliceNode",
        "TreeNode",
        "TupleNode",
        "TypeNode",
    }
)

_FUNCTION = ("sklearn.utils.validation", "check_array")

# A file may unpack to this many bytes, or to this many times its own size.
_UNPACKED, _RATIO = 2**28, 20

# What zipfile, NumPy and skops raise on damaged files, beside what every reader may raise.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    RuntimeError,
    EOFError,
    ImportError,
    MemoryError,
    SyntaxError,
)


def load_bytes(data: bytes, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a scikit-learn model or pipeline in a skops file; code in the file is never run."""
    try:
        model = model_of(data)
    except _DAMAGE as error:
        raise InvalidInput(f"{type(error).__name__}: {error}") from None
    return from_model(model, voting=voting)


def model_of(data: bytes) -> Any:
    """The model in a skops file, once the file is known to be harmless."""
    skops = library("skops.io")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _Audit(archive, max(_UNPACKED, _RATIO * len(data))).run()
    unknown = skops.get_untrusted_types(data=data)
    refused = [name for name in unknown if name not in _HARMLESS]
    if refused:
        raise UnsupportedModel(f"it contains objects of type {refused[0]}, which treeproof does not load")
    return skops.loads(data, trusted=unknown)


class _Audit:
    """Goes through a file without building any object of it."""

    def __init__(self, archive: zipfile.ZipFile, limit: int) -> None:
        self.archive = archive
        self.left = limit
        self.sizes = _sizes(archive, limit)
        self.same: dict[Any, list[dict[str, Any]]] = {}

    def run(self) -> None:
        if "schema.json" not in self.sizes:
            raise InvalidInput("it has no schema.json")
        nodes = list(_nodes(json.loads(self.archive.read("schema.json"))))
        for node in nodes:
            if node["__loader__"] not in _LOADERS or not _calls_nothing_else(node):
                raise UnsupportedModel(f"it contains a {node['__loader__']}, which treeproof does not load")
            self.same.setdefault(node.get("__id__"), []).append(node)
        read = set()
        for node in nodes:
            key = node.get("__id__"), node.get("file")
            if "file" in node and (key[0] is None or key not in read):
                read.add(key)
                self._check_array(node)
            if node["__loader__"] == "TreeNode":
                self._check_tree(node)

    def _check_array(self, node: dict[str, Any]) -> None:
        if node["__loader__"] != "NdArrayNode" or node["file"] not in self.sizes:
            raise InvalidInput(f"a {node['__loader__']} refers to {node['file']!r}, which is not an array in the file")
        size = self.sizes[node["file"]]
        self.left -= size
        if self.left < 0:
            raise InvalidInput("it reads its arrays over and over, which takes more memory than a model needs")
        shape, dtype, start = self._header(node["file"])
        if dtype.hasobject or size - start != math.prod(shape) * dtype.itemsize:
            raise InvalidInput(f"{node['file']} claims to be an array of shape {shape}, but holds {size - start} bytes")

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        """(shape, dtype, length of the header) of an array in the file."""
        with self.archive.open(name) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
            return shape, dtype, stream.tell()

    def _check_tree(self, node: dict[str, Any]) -> None:
        """Refuses a tree whose arrays have other dimensions than it claims: scikit-learn reads them without looking."""
        arguments, state = node["__reduce__"]["args"], node["content"]
        n_features, n_classes, n_outputs = arguments["content"]
        nodes, values = state["content"]["nodes"], state["content"]["values"]
        for part in (arguments, state, n_features, n_classes, n_outputs, nodes, values):
            # skops builds only the first of the objects with one id.
            if any(other != part for other in self.same[part.get("__id__")]):
                raise InvalidInput(f"two different objects have the id {part.get('__id__')}")
        outputs = json.loads(n_outputs["content"])
        for part, n_dimensions in ((n_classes, 1), (nodes, 1), (values, 3)):
            if (part["__loader__"], part["__class__"], part.get("type")) != ("NdArrayNode", "ndarray", "numpy"):
                raise InvalidInput(f"a tree has a {part['__class__']} where it needs an array")
            shape, dtype, _ = self._header(part["file"])
            if len(shape) != n_dimensions or (part is n_classes and (dtype != np.intp or shape != (outputs,))):
                raise InvalidInput(f"a tree has an array of shape {shape} and {dtype} that does not fit it")


def _calls_nothing_else(node: dict[str, Any]) -> bool:
    """Whether a function is the one that may be named, and what is called with settings such a function."""
    if node["__loader__"] == "PartialNode":
        return bool(node["content"].get("func", {}).get("__loader__") == "FunctionNode")
    return node["__loader__"] != "FunctionNode" or (node["__module__"], node["__class__"]) == _FUNCTION


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object that the file describes."""
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def _sizes(archive: zipfile.ZipFile, limit: int) -> dict[str, int]:
    """The unpacked size of each entry; zipfile reads no more of an entry than its directory states."""
    sizes: dict[str, int] = {}
    for entry in archive.infolist():
        if entry.filename in sizes:
            raise InvalidInput(f"two of its entries are named {entry.filename!r}")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidInput(f"{entry.filename!r} is packed with method {entry.compress_type}; use deflate")
        sizes[entry.filename] = entry.file_size
    if sum(sizes.values()) > limit:
        raise InvalidInput(
            f"it unpacks to {sum(sizes.values())} bytes; at most {limit} are read from a file of its size "
            "(save it without compression)"
        )
    return sizes
