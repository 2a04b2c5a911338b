"""How kernels are compiled: `entry` is called from Python, `inner` by kernels, `merged` becomes part of its caller.

Compiled code of a kernel is optimised again with every kernel above it, so a chain of large ones is merged where it
can be. Wrappers for calls from Python unpack every array of a tuple; inner kernels do without them. A kernel is also
compiled once per literal and per type that it is called with: that is why some arguments are cast, and why arrays are
copied in loops, not by slices, which bring numba's own error texts along.

Numba counts references, with atomic operations, whenever an array or a tuple of arrays changes hands. A `bare` kernel
counts none: it lives on what its caller holds, and neither makes nor returns arrays.
"""

from __future__ import annotations

from numba import njit

entry = njit(cache=True, nogil=True, no_cfunc_wrapper=True)
inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
bare = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
forced = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)
merged = njit(cache=True, nogil=True, inline="always")
