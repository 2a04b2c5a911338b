"""Arrays that compiled code uses without counting references to them, so that tuples of arrays cost nothing to pass on.

Numba counts the references to every array that a function takes, one by one, with atomic operations; for a tuple of
twenty arrays that is more work than many an inner function does, and threads that share a model disturb each other. But
Python holds all arguments of an entry kernel until it returns. So an entry kernel may borrow them, and hand on named
tuples; views of borrowed arrays are borrowed, too. A borrowed array must never be returned or outlive the call.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic


@intrinsic
def borrowed(typing_context, value):  # noqa: ARG001
    """An array, or a tuple of arrays, tuples and numbers: the same without an owner."""

    def without_owner(context, builder, kind, value):
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = array.meminfo.type(None)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = [
                without_owner(context, builder, one, builder.extract_value(value, i)) for i, one in enumerate(kind)
            ]
            return context.make_tuple(builder, kind, parts)
        return value

    def codegen(context, builder, signature, arguments):
        return without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), codegen
