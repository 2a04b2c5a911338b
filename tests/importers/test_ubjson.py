"""UBJSON as XGBoost writes it: values, damage, and the parts of the format that XGBoost reads otherwise."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.zoo.case import data
from treeproof.importers import _ubjson


def size(n: int) -> bytes:
    """A length, as XGBoost writes it."""
    return b"L" + n.to_bytes(8, "big", signed=True)


def key(name: str) -> bytes:
    return size(len(name)) + name.encode()


def test_ubjson_and_json_say_the_same() -> None:
    xgb = pytest.importorskip("xgboost")
    booster = xgb.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(*data(3)).get_booster()

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, (list, np.ndarray)):
            return [plain(item) for item in value]
        return np.float32(value) if isinstance(value, (float, np.floating)) else value

    assert plain(_ubjson.parse(bytes(booster.save_raw("ubj")))) == plain(json.loads(booster.save_raw("json")))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"Z", None), (b"T", True), (b"F", False), (b"i\xff", -1), (b"I\xff\xfe", -2), (b"l\x00\x01\x00\x00", 65536),
        (b"L\x80\x00\x00\x00\x00\x00\x00\x00", -(2**63)), (b"d\x3f\x80\x00\x00", 1.0), (b"S" + size(2) + b"hi", "hi"),
        (b"[#" + size(0), []), (b"{}", {}), (b"[#" + size(2) + b"T[#" + size(1) + b"Z", [True, [None]]),
        (b"{" + key("a") + b"T" + key("") + b"F}", {"a": True, "": False}),
    ],
)  # fmt: skip
def test_values(data: bytes, value: Any) -> None:
    assert _ubjson.parse(data) == value


@pytest.mark.parametrize(("marker", "dtype"), [("i", "i1"), ("U", "u1"), ("I", "i2"), ("l", "i4"), ("L", "i8"),
                                               ("d", "f4"), ("D", "f8")])  # fmt: skip
def test_typed_arrays_are_big_endian_and_keep_their_type(marker: str, dtype: str) -> None:
    values = np.array([1, 2, 100], dtype=dtype)
    array = _ubjson.parse(b"[$" + marker.encode() + b"#" + size(3) + values.astype(">" + dtype).tobytes())
    assert array.dtype == values.dtype
    np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 are left"), (b"X", "does not start a value"), (b"[", "0 are left"), (b"TT", "1 bytes follow"),
        (b"[$U#" + size(2**63 - 1), "length 9223372036854775807"), (b"[#" + size(-1), "length -1"),
        (b"[$Z#" + size(9), "no type for the items"), (b"[$S#" + size(1) + key("a"), "no type for the items"),
        (b"[$U\x01", "must have a count"), (b"[$D#" + size(2) + bytes(15), "16 bytes are announced, but 15 are left"),
        (b"{" + key("a") + b"T" + key("a") + b"T}", "occurs twice"), (b"[#L\0\0\0\0\0\0\0\1" * 100, "nested deeper"),
        (b"{" + (key("a") + b"{") * 100, "nested deeper"), (b"d\x00", "4 bytes are announced, but 1 are left"),
        (b"{" + key("a") + b"T", "0 are left"),
    ],
)  # fmt: skip
def test_damage_is_refused_with_the_position(data: bytes, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        _ubjson.parse(data)


@pytest.mark.parametrize(
    "data",
    [b"NT", b"Cx", b"U\x01", b"D" + bytes(8), b"Hi\x011", b"SU\x01a", b"[]", b"[T]", b"{#" + size(0), b"{$T#" + size(0),
     b"{i\x01aT}", b"[#i\x01T"],
)  # fmt: skip
def test_what_xgboost_does_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(tp.InvalidInput, match="byte"):
        _ubjson.parse(data)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(UnicodeError):
        _ubjson.parse(b"S" + size(1) + b"\xff")
