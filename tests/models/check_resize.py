#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nearest neighbours of Resize over scales, lengths and modes, as ONNX Runtime and ONNX's reference choose them.

  tests/models/check_resize.py [--target cpu|cuda]

Every element of the input is its own number, so that results say which element was taken. ONNX Runtime's answer must be
met everywhere, by plans for known and for symbolic lengths, with scales and with sizes. ONNX's reference computes
positions in float64: it may differ by one element, and only where the position is next to the border between two. Some
answers of the peers are left out: where a scale leaves the length as it is ONNX Runtime copies the input, and what
depends on the length of the output is computed from scale times input in the reference, not from the length itself.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from runs import Sinter, onnx_runtime

ROOT = Path(__file__).resolve().parents[2]
SCALES = (1 / 3, 1 / 5, 1 / 6, 1 / 7, 1 / 10, 1 / 20, 1 / 49, .123, .25, .3, .5, .6, .7, .77, .9, 1, 1.1, 1.3, 1.5, 2, 7 / 3,
          2.5, 3, 4.7, 5.9)
LENGTHS = (1, 2, 3, 7, 10, 20, 49, 120, 127, 333)
SYMBOLIC = (100, 120, 127, 255)
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
COORDINATES = {"half_pixel": 13, "pytorch_half_pixel": 13, "align_corners": 13, "asymmetric": 13, "tf_crop_and_resize": 13,
               "half_pixel_symmetric": 19, "tf_half_pixel_for_nn": 11, "simple": 10}
REGION = (.2, .83)
NEAR = 1e-4


def length_of(length, scale):
    return int(np.floor(np.float32(length) * np.float32(scale)))


class Case:
    """Of one rule of coordinates, all others in one model; `length` of the input, or nothing: a symbol."""

    def __init__(self, coordinates, length, kind=TensorProto.FLOAT, lengths=SYMBOLIC):
        self.coordinates, self.opset = coordinates, COORDINATES[coordinates]
        self.length, self.lengths = length, [length] if length else lengths
        self.nodes, self.constants, self.outputs, self.names = [], [("region", self.region())], [], []
        self.kind, self.rows = kind, {}
        for scale in SCALES:
            size = length_of(self.lengths[0], scale)
            copied = any(length_of(n, scale) == n for n in self.lengths) and (scale != 1 or coordinates == "tf_crop_and_resize")
            # A symbolic length is that of the nearest fraction, not of float32's product.
            rounded = length is None and any(length_of(n, scale) != int(n * scale + 1e-6) for n in self.lengths)
            if size < 1 or copied or rounded:
                continue
            for sized in (False, True) if self.opset > 11 else (False,):
                for rounding in ROUNDINGS if self.opset > 10 else ("simple",):
                    self.add(scale, size, sized, rounding)

    def region(self):
        begin, end = REGION
        return np.array([0, 0, 0, begin, 1, 1, 1, end] if self.coordinates == "tf_crop_and_resize" else [], np.float32)

    def add(self, scale, size, sized, rounding):
        number = len(self.outputs)
        name = f"{self.coordinates}/{rounding}/{'sizes' if sized else 'scales'}/{scale:.4g}"
        given = [("scales", np.array([1, 1, 1, scale], np.float32)), ("sizes", np.array([1, 1, 1, size]))][sized]
        self.constants.append((f"{given[0]}{number}", given[1]))
        inputs = ["x", "region"] + ([""] if sized else []) + [f"{given[0]}{number}"]
        attributes = {"mode": "nearest"}
        if self.opset > 10:
            attributes |= {"coordinate_transformation_mode": self.coordinates, "nearest_mode": rounding,
                           "extrapolation_value": 77.0}
        else:
            inputs = ["x", inputs[-1]]
        self.nodes.append(helper.make_node("Resize", inputs, [f"y{number}"], **attributes))
        self.outputs.append(helper.make_tensor_value_info(f"y{number}", self.kind, None))
        self.names.append(name)
        self.rows[f"y{number}"] = (name, scale, size, sized, rounding)

    def model(self):
        x = helper.make_tensor_value_info("x", self.kind, [1, 1, 1, self.length or "n"])
        graph = helper.make_graph(self.nodes, "resize", [x], self.outputs,
                                  [numpy_helper.from_array(value, name) for name, value in self.constants])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def takes_the_length(self, row, size):
        """Whether the reference's position is that of the specification, where it depends on the output's length."""
        sized = row[3] and size > 1
        return sized or not (self.coordinates in ("align_corners", "tf_crop_and_resize") or
                             self.coordinates == "pytorch_half_pixel" and size == 1)

    def position(self, length, row):
        """In float64, as the reference has it."""
        _, scale, size, sized, _ = row
        scale = size / length if sized else float(np.float32(scale))
        size = size if sized else length_of(length, scale)
        x = np.arange(size, dtype=np.float64)
        if self.coordinates == "align_corners":
            return x * (length - 1) / max(size - 1, 1)
        if self.coordinates == "tf_crop_and_resize":
            begin, end = (float(np.float32(v)) for v in REGION)
            return begin * (length - 1) + x * (end - begin) * (length - 1) / max(size - 1, 1)
        offset = length / 2 * (1 - size / (scale * length)) if self.coordinates == "half_pixel_symmetric" else 0
        half = self.coordinates != "asymmetric"
        return offset + (x + .5 * half) / scale - .5 * half


def is_near(position):
    """Where rounding decides: next to an element, which the reference, too, then takes for another, or to a middle."""
    return np.abs(2 * position - np.rint(2 * position)) <= NEAR * np.maximum(1, np.abs(position))


def differences(case, length, found, peer, reference):
    for name, row in case.rows.items():
        y, wanted = found[name].ravel(), peer[name].ravel()
        if y.shape != wanted.shape or y.dtype != wanted.dtype:
            yield f"{row[0]} of {length}: {y.dtype}{list(y.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
        elif not np.array_equal(y, wanted):
            at = int(np.argmax(y != wanted))
            yield f"{row[0]} of {length}: {np.sum(y != wanted)} differ from ONNX Runtime: {y[at]} instead of {wanted[at]} at {at}"
        elif reference and case.takes_the_length(row, len(y)):
            wanted = reference[name].ravel()
            if len(wanted) != len(y) and abs(length * float(np.float32(row[1])) - len(y)) < NEAR * len(y):
                continue  # the length itself is next to a whole number
            far = (y != wanted) & ~(is_near(case.position(length, row)) & (np.abs(y - wanted) <= 1) | (wanted == 77) | (y == 77))
            if far.any():
                at = int(np.argmax(far))
                yield f"{row[0]} of {length}: {far.sum()} differ from ONNX's reference: {y[at]} instead of {wanted[at]} at {at}"


def cases():
    for coordinates in COORDINATES:
        for length in LENGTHS:
            yield Case(coordinates, length)
        yield Case(coordinates, None)
    for kind, length in ((TensorProto.FLOAT16, 333), (TensorProto.UINT8, 127), (TensorProto.INT32, 333)):
        yield Case("half_pixel", length, kind)
        yield Case("asymmetric", None, kind, [n for n in SYMBOLIC if n < 256])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--filter", default="", help="a part of the names of coordinates")
    a = p.parse_args()
    wrong, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path, sinter = Path(folder) / "resize.onnx", Sinter(a.sinter, folder, a.target)
        for case in cases():
            if a.filter not in case.coordinates or not case.rows:
                continue
            model = case.model()
            onnx.save(model, path)
            plan = sinter.compile(path, *([] if case.length else ["--dim", f"n={min(case.lengths)}..{max(case.lengths)}"]))
            peer = onnx_runtime(path, threads=1)
            reference = None
            if case.opset > 10 and case.coordinates != "tf_half_pixel_for_nn" and case.kind == TensorProto.FLOAT:
                reference = ReferenceEvaluator(model)
            for length in case.lengths:
                x = np.arange(length).astype(helper.tensor_dtype_to_np_dtype(case.kind)).reshape(1, 1, 1, length)
                names = list(case.rows)
                found = sinter.run(plan, {"x": x})
                other = dict(zip(names, reference.run(names, {"x": x}))) if reference else None
                problems = list(differences(case, length, found, dict(zip(names, peer.run(names, {"x": x}))), other))
                compared += len(names)
                wrong += problems
                for problem in problems[:3]:
                    print(problem, flush=True)
    print(f"{compared - len(wrong)} of {compared} agree")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
