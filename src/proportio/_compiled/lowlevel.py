"""What Numba does not offer by itself: a caching decorator, LLVM operations, and arrays free of aliases.

Nothing here is specific to the library's mathematics, and nothing compiles when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = [
    "compiled",
    "dot",
    "double_bits",
    "float_bits",
    "float_from_bits",
    "hadamard_128",
    "inlined",
    "multiply_add",
    "round_even",
    "squared_distance",
    "unaliased",
]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def operation(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's `intrinsic`, typed as what it makes: a function that compiled code calls."""
    return cast("Callable[..., Any]", intrinsic(generator))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, keep the result on disk where a cache directory can be written."""
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # Numba found no writable place for its cache
        return cast("Callable[P, R]", numba.njit(**_OPTIONS)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A helper that LLVM always inlines in its compiled caller."""
    return cast("Callable[P, R]", numba.njit(forceinline=True, **_OPTIONS)(function))


@operation
def multiply_add(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x*y + z in float32, rounded once where the processor has a fused instruction.

    LLVM decides per processor, not per loop: vector bodies and scalar remainders give the same bits.
    """
    return _float32_operation("llvm.fmuladd.f32", 3)


@operation
def round_even(typingctx: Any, x: Any) -> Any:
    """The integer nearest to the float32 x, as a float32."""
    return _float32_operation("llvm.rint.f32", 1)


@operation
def float_bits(typingctx: Any, x: Any) -> Any:
    """The 32 bits of a float32 as an int32."""
    return _reinterpretation(types.float32, types.int32, ir.IntType(32))


@operation
def float_from_bits(typingctx: Any, x: Any) -> Any:
    """The float32 whose 32 bits are those of an int32."""
    return _reinterpretation(types.int32, types.float32, ir.FloatType())


@operation
def double_bits(typingctx: Any, x: Any) -> Any:
    """The 64 bits of a float64 as a uint64."""
    return _reinterpretation(types.float64, types.uint64, ir.IntType(64))


@operation
def dot(typingctx: Any, z: Any, turns: Any, j: Any, terms: Any, start: Any) -> Any:
    """start + Σ_k z[k] turns[k, j] over k < len(terms), rounded after each term: a loop unrolled by its type.

    `terms` is a tuple of zeros. LLVM unrolls a loop whose length is known too late to vectorise the loop over j around it.
    """

    def term(builder: Any, fma: Any, factor: Any, value: Any, total: Any) -> Any:
        return builder.call(fma, [factor, value, total])

    return types.float32(z, turns, types.intp, terms, types.float32), _unrolled(len(terms), term)


@operation
def squared_distance(typingctx: Any, y: Any, columns: Any, i: Any, terms: Any, start: Any) -> Any:
    """start + Σ_k (columns[k, i] - y[k])² over k < len(terms), unrolled as `dot` is."""

    def term(builder: Any, fma: Any, factor: Any, value: Any, total: Any) -> Any:
        difference = builder.fsub(value, factor)
        return builder.call(fma, [difference, difference, total])

    return types.float32(y, columns, types.intp, terms, types.float32), _unrolled(len(terms), term)


@operation
def hadamard_128(typingctx: Any, values: Any, start: Any, factors: Any, at: Any, target: Any, to: Any) -> Any:
    """target[to : to + 128] = H₁₂₈ (values[start : start + 128] ∘ factors[at : at + 128]), in eight 512-bit registers if any.

    Four butterflies within each: lane i becomes v[i ^ h] + v[i], or - v[i] where i has the bit h = 1, 2, 4, 8; three across.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), 16)
        lanes = ir.VectorType(ir.IntType(32), 16)
        butterfly = _declare(builder, "llvm.fmuladd.v16f32", vector, 3)

        def pointers(k: int) -> list[Any]:
            array = context.make_array(signature.args[k])(context, builder, args[k])
            first = builder.bitcast(builder.gep(array.data, [args[k + 1]]), vector.as_pointer())
            return [builder.gep(first, [ir.Constant(ir.IntType(64), i)]) for i in range(8)]

        def load(pointer: Any) -> Any:
            return builder.load(pointer, align=4)

        v = [builder.fmul(load(x), load(f)) for x, f in zip(pointers(0), pointers(2), strict=True)]
        for h in (1, 2, 4, 8):
            mask = ir.Constant(lanes, [i ^ h for i in range(16)])
            sign = ir.Constant(vector, [-1.0 if i & h else 1.0 for i in range(16)])
            v = [builder.call(butterfly, [x, sign, builder.shuffle_vector(x, x, mask)]) for x in v]
        for h in (1, 2, 4):
            v = [builder.fsub(v[i ^ h], v[i]) if i & h else builder.fadd(v[i], v[i ^ h]) for i in range(8)]
        for x, pointer in zip(v, pointers(4), strict=True):
            builder.store(x, pointer, align=4)
        return context.get_dummy_value()

    return types.none(values, types.intp, factors, types.intp, target, types.intp), codegen


@operation
def unaliased(typingctx: Any) -> Any:
    """Promise that the arrays of the function that calls this do not overlap.

    It saves the overlap tests that LLVM would otherwise make in front of every short vector loop.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for argument in context.call_conv.get_arguments(builder.function):
            if isinstance(argument.type, ir.PointerType):
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return types.none(), codegen


def _unrolled(count: int, term: Callable[..., Any]) -> Callable[..., Any]:
    """Code of a function (vector, table, column, terms, start): `term` of vector[k] and table[k, column], k < count."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        fma = _declare(builder, "llvm.fmuladd.f32", ir.FloatType(), 3)
        vector = context.make_array(signature.args[0])(context, builder, args[0])
        table = context.make_array(signature.args[1])(context, builder, args[1])
        stride = builder.extract_value(table.strides, 0)
        origin = builder.bitcast(table.data, ir.IntType(8).as_pointer())
        total = args[4]
        for k in range(count):
            index = ir.Constant(stride.type, k)
            row = builder.bitcast(builder.gep(origin, [builder.mul(index, stride)]), ir.FloatType().as_pointer())
            factor = builder.load(builder.gep(vector.data, [index]))
            total = term(builder, fma, factor, builder.load(builder.gep(row, [args[2]])), total)
        return total

    return codegen


def _declare(builder: Any, name: str, operand: Any, arity: int) -> Any:
    function_type = ir.FunctionType(operand, [operand] * arity)
    return builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)


def _float32_operation(name: str, arity: int) -> Any:
    """Signature and code generator of an LLVM intrinsic that maps `arity` float32 to one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(_declare(builder, name, ir.FloatType(), arity), args)

    return types.float32(*[types.float32] * arity), codegen


def _reinterpretation(source: Any, target: Any, target_ir: Any) -> Any:
    """Signature and code generator of a change of type that keeps the bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target_ir)

    return target(source), codegen
