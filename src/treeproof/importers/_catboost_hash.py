"""How CatBoost turns the text of a category into a number: the low 32 bits of CityHash64, version 1.0, of its UTF-8.

CityHash is arithmetic on 64-bit words: products and sums that wrap, and rotations to the right.
"""

from __future__ import annotations

_WORD = 2**64 - 1
# CityHash's own constants, k0 to k3, and the multiplier that joins two words.
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_JOIN = 0x9DDFEA08EB382D69
_BLOCK = 64

# A table of CTRs is looked up by a word made of the hash; for several columns the rule would be applied again.
_KEY = 0x4906BA494954CB65**2


def hash_of(text: str) -> int:
    """The number that CatBoost compares in place of a category's text: 32 bits with a sign.

    >>> hash_of("a"), hash_of("é")
    (-805065478, 468052468)
    """
    low = _city_hash(text.encode("utf-8")) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def key_of(hashed: int) -> int:
    """The key of a table of CTRs for a category with this hash."""
    return _KEY * hashed & _WORD


def _city_hash(data: bytes) -> int:
    if len(data) <= 16:
        return _short(data)
    if len(data) <= 32:
        return _medium(data)
    return _long(data) if len(data) <= _BLOCK else _blocks(data)


def _word(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + 8], "little")


def _rotated(word: int, by: int) -> int:
    word &= _WORD
    return (word >> by | word << (64 - by)) & _WORD


def _folded(word: int) -> int:
    word &= _WORD
    return word ^ word >> 47


def _joined(first: int, second: int) -> int:
    first, second = first & _WORD, second & _WORD
    once = _folded((first ^ second) * _JOIN)
    return _folded((second ^ once) * _JOIN) * _JOIN & _WORD


def _short(data: bytes) -> int:
    n = len(data)
    if n > 8:
        last = _word(data, n - 8)
        return _joined(_word(data, 0), _rotated(last + n, n)) ^ last
    if n >= 4:
        first, last = (int.from_bytes(part, "little") for part in (data[:4], data[-4:]))
        return _joined(n + (first << 3), last)
    if n:
        ends = data[0] + (data[n >> 1] << 8)
        size = n + (data[-1] << 2)
        return _folded(ends * _K2 ^ size * _K3) * _K2 & _WORD
    return _K2


def _medium(data: bytes) -> int:
    n = len(data)
    first, second = _word(data, 0) * _K1, _word(data, 8)
    last, before = _word(data, n - 8) * _K2, _word(data, n - 16) * _K0
    return _joined(
        _rotated(first - second, 43) + _rotated(last, 30) + before,
        first + _rotated(second ^ _K3, 20) - last + n,
    )


def _long(data: bytes) -> int:
    n = len(data)
    front = _mixed(data, 0, (n + _word(data, n - 16)) * _K0, 24)
    back = _mixed(data, n - 32, _word(data, 16), n - 8)
    both = _folded((front[0] + back[1]) * _K2 + (back[0] + front[1]) * _K0)
    return _folded(both * _K0 + front[1]) * _K2 & _WORD


def _mixed(data: bytes, start: int, seed: int, last: int) -> tuple[int, int]:
    """Two words from three in a row and the one at `last`."""
    total = _word(data, start) + seed
    end = _word(data, last)
    turned = _rotated(total + end, 52) + _rotated(total, 37)
    total += _word(data, start + 8)
    turned += _rotated(total, 7)
    total += _word(data, start + 16)
    return total + end, turned + _rotated(total, 31)


def _blocks(data: bytes) -> int:
    n = len(data)
    x = _word(data, 0)
    y = _word(data, n - 16) ^ _K1
    z = _word(data, n - 56) ^ _K0
    v = _weak(data, n - 64, n, y)
    w = _weak(data, n - 32, n * _K1, _K0)
    z += _folded(v[1]) * _K1
    x = _rotated(z + x, 39) * _K1
    y = _rotated(y, 33) * _K1
    for at in range(0, (n - 1) // _BLOCK * _BLOCK, _BLOCK):
        x = _rotated(x + y + v[0] + _word(data, at + 16), 37) * _K1 ^ w[1]
        y = _rotated(y + v[1] + _word(data, at + 48), 42) * _K1 ^ v[0]
        z = _rotated(z ^ w[0], 33)
        v = _weak(data, at, v[1] * _K1, x + w[0])
        w = _weak(data, at + 32, z + w[1], y)
        x, z = z, x
    return _joined(_joined(v[0], w[0]) + _folded(y) * _K1 + z, _joined(v[1], w[1]) + x)


def _weak(data: bytes, start: int, first: int, second: int) -> tuple[int, int]:
    """Two words from the four at `start` and two seeds."""
    a, b, c, d = (_word(data, start + step) for step in (0, 8, 16, 24))
    first += a
    turned = _rotated(second + first + d, 21)
    total = first + b + c
    return (total + d) & _WORD, (turned + _rotated(total, 44) + first) & _WORD
