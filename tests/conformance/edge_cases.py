# SPDX-License-Identifier: Apache-2.0
"""Cases at the edges of what ONNX's own data asks: positions that float32 decides, results that are finite although what
they are made of is not, loops that a condition ends."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from peer_support import Const, case, save


def resize_cases():
    """One number for each element, so that results say which one was taken."""
    def resize(name, length, scale, opset=13, **attributes):
        x = np.arange(2 * length, dtype=np.float32).reshape(1, 1, 2, length)
        given = Const(np.array([1, 1, 1, scale], np.float32))
        case(f"resize_nearest_{name}", "Resize", [x, None, given] if opset > 10 else [x, given], opset=opset, mode="nearest",
             **attributes)

    for name, scale in (("third", 1 / 3), ("fifth", .2), ("tenth", .1), ("sixth", 1 / 6), ("twentieth", .05), ("three_fifths", .6)):
        resize(f"asymmetric_{name}", 120, scale, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        resize(f"half_pixel_{name}", 120, scale, coordinate_transformation_mode="half_pixel", nearest_mode="floor")
    for mode in ("round_prefer_ceil", "round_prefer_floor"):
        resize(f"{mode}_between_elements", 20, .3, coordinate_transformation_mode="half_pixel", nearest_mode=mode)
    resize("align_corners_of_a_fraction", 10, .75, coordinate_transformation_mode="align_corners", nearest_mode="floor")
    resize("10_down", 10, .6, opset=10)
    resize("10_up", 10, 1.5, opset=10)


def function_cases():
    ends = np.array([1, 1.7e38, 1.8e38, 3e38, np.finfo(np.float32).max], np.float32)
    last = np.array([88.7, 88.8, 89, 89.4, 89.5], np.float32)
    for name in ("Sinh", "Cosh"):
        case(f"{name.lower()}_where_exponentials_overflow", name, [np.concatenate([last, -last])])
    case("asinh_far_out", "Asinh", [np.concatenate([ends, -ends])])
    case("acosh_far_out", "Acosh", [ends])
    case("atanh_next_to_the_poles", "Atanh", [np.array([-1 + 2**-24, -.9999, .9999, 1 - 2**-24], np.float32)])


def dropout_cases():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for opset in (7, 10, 12, 13):
        case(f"dropout_mask_{opset}", "Dropout", [x], 2, opset=opset, **({"ratio": .3} if opset < 12 else {}))


def loop_cases():
    def info(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    def loop(name, trips, nodes, outputs, x, constants):
        """v from x on, as long as the body says that there is `more`."""
        rank = [None] * x.ndim
        body = helper.make_graph(nodes, "body", [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
                                                 info("v", TensorProto.INT64, rank)],
                                 [info("more", TensorProto.BOOL, [])] + [info(o, TensorProto.INT64, None) for o in outputs],
                                 [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
        initializers = [numpy_helper.from_array(np.array(True), "yes")]
        if trips is not None:
            initializers.append(numpy_helper.from_array(np.array(trips), "trips"))
        results = [f"out{k}" for k in range(len(outputs))]
        node = helper.make_node("Loop", ["trips" if trips is not None else "", "yes", "in0"], results, name="the_Loop", body=body)
        save(name, [node], initializers, {"in0": x}, [info("in0", TensorProto.INT64, x.shape)], results,
             [helper.make_opsetid("", 17)])

    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs, [output], **attributes)

    doubles = [node("Add", ["v", "v"], "next"), node("ReduceMax", ["next"], "most", keepdims=0),
               node("Less", ["most", "limit"], "more")]
    for name, trips in (("int64_max", 2**63 - 1), ("large", 2**62), ("int32_max", 2**31 - 1), ("no", None)):
        loop(f"loop_{name}_trips_and_a_condition", trips, doubles, ["next"], np.array([1, 2, 3]), {"limit": np.int64(100)})
    grows = [node("Concat", ["v", "two"], "longer", axis=0), node("Shape", ["longer"], "shape"),
             node("Less", ["shape", "limit"], "short"), node("Squeeze", ["short"], "more")]
    loop("loop_as_long_as_a_size_is_small", None, grows, ["longer"], np.array([7]),
         {"limit": np.array([10]), "two": np.array([2])})
    counts = [node("Add", ["v", "i"], "next"), node("Identity", ["next"], "row"), node("Less", ["i", "limit"], "more")]
    loop("loop_int64_max_trips_collects", 2**63 - 1, counts, ["next", "row"], np.array([1, 2, 3]), {"limit": np.int64(4)})


def edge_cases():
    resize_cases()
    function_cases()
    dropout_cases()
    loop_cases()
