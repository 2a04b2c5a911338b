"""How kernels are compiled.

`entry` is called from Python, `inner` by kernels. `borrowing` is an inner kernel, and `door` an entry, that neither
makes nor returns an array: numba then counts no references. Elsewhere it does, with atomic operations, whenever an
array or a tuple of arrays is passed on or unpacked, and in a small kernel that costs several times the work itself.
`tiny` is a borrowing kernel that becomes part of its caller. So does `merged`, before types are known: for kernels that
make arrays.

An entry returns no named tuple: to make one, numba has Python find its class, and if a signal arrives there (Ctrl-C),
numba takes the missing class for one and crashes. Plain tuples, numbers and arrays are safe.

A record (`array[i]` of a structured dtype) is a bare pointer, and does not keep its array alive. Take records of arrays
that are arguments, or that are used again later; never `np.zeros(1, TYPE)[0]`.

What compiling costs is mostly the length of the code that numba writes for LLVM. An array is seven values there, and
each of them is named wherever a tuple of arrays is passed on: kernels are given the parts that they need. Every
`np.empty` is compiled once more for each type, so what is known beforehand is made in Python. A kernel is also compiled
once per type that it is called with: that is why some arguments are cast, and why arrays are copied in loops, not by
slices, which bring numba's own error texts along.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit
from numba.types import unliteral

from treeproof._kernels.cache import cache_of
from treeproof._kernels.compiler import options_of_parts
from treeproof._kernels.compiling import watchers


def _compiled(**options: Any) -> Callable[[Any], Any]:
    """numba's decorator with these options and a cache."""

    def decorate(function: Any) -> Any:
        dispatcher = njit(**options)(function)
        dispatcher._cache = cache_of(function)
        _take_literals_as_values(dispatcher)
        _tell_and_leave_garbage(dispatcher)
        return dispatcher

    return decorate


def _tell_and_leave_garbage(dispatcher: Any) -> None:
    """Tells who watches, and has garbage collected after compiling only: its many objects are looked through often."""
    compile_for = dispatcher.compile

    def compile_and_tell(signature: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        _tell(1)
        try:
            return compile_for(signature)
        finally:
            _tell(-1)
            if was_enabled:
                gc.enable()

    dispatcher.compile = compile_and_tell


def _tell(change: int) -> None:
    for watcher in watchers:
        watcher(change)


def _take_literals_as_values(dispatcher: Any) -> None:
    """Has a kernel compiled once for all numbers of a type, and not for each constant that it is called with."""
    template = dispatcher.get_call_template

    def template_for(args: Any, kws: Any) -> Any:
        return template([unliteral(each) for each in args], {name: unliteral(each) for name, each in kws.items()})

    dispatcher.get_call_template = template_for


entry = _compiled(nogil=True, no_cfunc_wrapper=True)
door = _compiled(nogil=True, no_cfunc_wrapper=True, _nrt=False)
_inner = partial(_compiled, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options_of_parts)
inner = _inner(_nrt=True)
borrowing = _inner(_nrt=False)
tiny = _inner(_nrt=False, forceinline=True)
merged = _compiled(nogil=True, inline="always")
