"""Bit tricks that numba has no name for."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context, word):  # noqa: ARG001
    """The index of the lowest set bit of a uint64 that is not 0."""

    def codegen(context, builder, signature, arguments):  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def highest_bit(typing_context, word):  # noqa: ARG001
    """The index of the highest set bit of a uint64 that is not 0."""

    def codegen(context, builder, signature, arguments):  # noqa: ARG001
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), codegen


@intrinsic
def count_bits(typing_context, word):  # noqa: ARG001
    """How many bits of a uint64 are set."""

    def codegen(context, builder, signature, arguments):  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen
