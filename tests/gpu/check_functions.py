#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far compiled functions are from exact: every float16 and bfloat16, and float32 of every exponent.

  tests/gpu/check_functions.py --target cuda --out tests/gpu/results/functions.json
  tests/gpu/check_functions.py --target cpu

A function of a 16-bit type gives a result of that type; inside a kernel it is a float32 whose error is measured here
before it is rounded, by an output in float32 behind a cast. The bounds are those of codegen/emit/APPROXIMATIONS.md.
"""
import argparse
import math
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "perf"))
from common import Sinter, provenance, write  # noqa: E402

TYPES = {"f16": (TensorProto.FLOAT16, np.float16), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
         "f32": (TensorProto.FLOAT, np.float32)}


erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def tanh_gelu(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


# name: operators one after the other, the exact function, and for results of 16 bits and for float32 the bound and
# the least size that it is relative to: near its zeros a sine's own reduction weighs more, below 2^-126 results may be
# zero, and 1 + erf(x) cancels in float32 where nothing rounds to fewer bits.
FUNCTIONS = {
    "sin": (["Sin"], np.sin, (2**-17, 1e-2), (6e-7, 1e-2)),
    "cos": (["Cos"], np.cos, (2**-17, 1e-2), (6e-7, 1e-2)),
    "sin of sin": (["Sin", "Sin"], lambda x: np.sin(np.sin(x)), (2**-16, 1e-2), (6e-7, 1e-2)),
    "chain_sin4": (["Sin"] * 4, lambda x: np.sin(np.sin(np.sin(np.sin(x)))), (2**-15, 1e-2), (1e-6, 1e-2)),
    "cos of tanh": (["Tanh", "Cos"], lambda x: np.cos(np.tanh(x)), (2**-15, 0), (2e-6, 0)),
    "exp": (["Exp"], np.exp, (2**-16, 1e-32), (1e-6, 1e-31)),
    "tanh": (["Tanh"], np.tanh, (2**-15, 1e-37), (4e-7, 1e-37)),
    "erf": (["Erf"], erf, (2**-17, 1e-37), (4e-7, 1e-37)),
    "sigmoid": (["Sigmoid"], lambda x: 1 / (1 + np.exp(-x)), (2**-15, 1e-32), (1e-6, 1e-31)),
    "gelu": (["Gelu"], lambda x: x * 0.5 * erfc(-x / np.sqrt(2)), (2**-15, 1e-4), (1e-6, 1)),
    "gelu tanh": (["GeluTanh"], tanh_gelu, (2**-15, 1e-4), (1e-6, 1)),
    "softplus": (["Softplus"], lambda x: np.logaddexp(0, x), (2**-15, 1e-32), (1e-6, 1e-31)),
    "log": (["Log"], np.log, (2**-15, 1e-3), (4e-7, 1e-3)),
    "reciprocal": (["Reciprocal"], lambda x: 1 / x, (2**-15, 1e-37), (3e-7, 1e-37)),
    "sqrt": (["Sqrt"], np.sqrt, (2**-15, 1e-37), (3e-7, 1e-37)),
    "sinh": (["Sinh"], np.sinh, (2**-15, 1e-37), (1e-6, 1e-37)),
    "cosh": (["Cosh"], np.cosh, (2**-15, 0), (1e-6, 0)),
    "asinh": (["Asinh"], np.arcsinh, (2**-15, 1e-37), (1e-6, 1e-37)),
    "acosh": (["Acosh"], np.arccosh, (2**-15, 1e-37), (1e-6, 1e-37)),
    "atanh": (["Atanh"], np.arctanh, (2**-15, 1e-37), (1e-6, 1e-37)),
}


def model(type, n):
    nodes, outputs = [], []
    for number, (name, row) in enumerate(FUNCTIONS.items()):
        value = "x"
        for step, kind in enumerate(row[0]):
            given = {"approximate": "tanh"} if kind == "GeluTanh" else {}
            nodes.append(helper.make_node(kind.removesuffix("Tanh") or kind, [value], [f"v{number}_{step}"], **given))
            value = f"v{number}_{step}"
        nodes.append(helper.make_node("Cast", [value], [f"y{number}"], to=TensorProto.FLOAT))
        outputs.append(helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, [n]))
    x = helper.make_tensor_value_info("x", TYPES[type][0], [n])
    graph = helper.make_graph(nodes, "functions", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def arguments(type):
    if type == "f32":
        # Every exponent and sign with 2^11 mantissas each.
        bits = np.arange(1 << 20, dtype=np.uint64) * 4096
        return (bits + (bits * 2654435761 >> 13) % 4096).astype(np.uint32).view(np.float32)
    return np.arange(1 << 16, dtype=np.uint16).view(TYPES[type][1])


def worst_error(found, exact, least, either):
    """The greatest relative error, where it is, and where a NaN or an infinity is not as it should be. `either`:
    where NaN and zero both are."""
    top = float(np.finfo(np.float32).max)
    sure = np.abs(exact) < 0.99 * top
    beyond = np.isinf(exact) | (np.abs(exact) > 1.01 * top)
    wrong = np.isnan(found) != np.isnan(exact)
    wrong |= beyond & (found != np.sign(exact) * np.inf)
    wrong &= ~(either & (np.isnan(found) | (np.abs(found) < least)))
    with np.errstate(all="ignore"):
        errors = np.abs(found - exact) / np.maximum(np.abs(exact), max(least, 1e-300))
    errors[~sure | (found == exact) | wrong | either] = 0
    at = int(np.argmax(errors))
    return float(errors[at]), at, np.flatnonzero(wrong)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--math", default="short", choices=["short", "precise"])
    p.add_argument("--commit")
    p.add_argument("--out")
    a = p.parse_args()
    result, failed = {**provenance(a.commit), "target": a.target, "math": a.math, "worst_relative_error": {}}, 0
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        sinter = Sinter(a.sinter, folder, a.target)
        for type in TYPES:
            x = arguments(type)
            onnx.save(model(type, len(x)), folder / f"{type}.onnx")
            plan = sinter.compile(folder / f"{type}.onnx", f"--math={a.math}")
            (folder / "x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
            sinter.text("run", plan, "--inputs", f"x={folder / 'x.pb'}", "--outputs", folder / "y.npz")
            with np.load(folder / "y.npz") as y:
                for number, (name, (_, exact, short, full)) in enumerate(FUNCTIONS.items()):
                    is_short = type != "f32" and a.target != "cpu" and a.math == "short"
                    bound, least = short if is_short else full
                    with np.errstate(all="ignore"):
                        error, at, wrong = worst_error(y[f"y{number}"].astype(np.float64),
                                                       exact(x.astype(np.float64)), least,
                                                       (name == "gelu") & (x == -np.inf))
                    row = {"error": float(f"{error:.3g}"), "at": float(x[at]), "bound": bound}
                    result["worst_relative_error"].setdefault(name, {})[type] = row
                    problem = "" if error <= bound else f"  ABOVE {bound:.2g}"
                    if len(wrong):
                        problem += f"  {len(wrong)} NaN or infinities wrong, of {x[wrong[0]]}"
                    failed += bool(problem)
                    print(f"{name} {type}: 2^{np.log2(max(error, 1e-300)):.1f} ({error:.2g}) at {x[at]}{problem}",
                          flush=True)
    if a.out:
        write(a.out, result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
