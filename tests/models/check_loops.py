#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and loops whose lengths only the run knows, one plan at many lengths, against ONNX Runtime.

LSTM, GRU and RNN in both directions, with and without sequence_lens, of 1 to 2,000 steps and batches of 1 and 16; Loop
with a trip count that is a size, with conditions on data, nested, with carried values that change places, with branches
in them; If on data; Scan in both directions; no iteration at all. Options: see made_cases.py.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from made_cases import info, main, model

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LENGTHS = (1, 2, 3, 7, 16, 17, 64, 100, 500, 2000)


def recurrent(op, direction, lens, linear_before_reset=0, hidden=40, size=24):
    random = np.random.default_rng(7)
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1

    def weights(*shape):
        return (random.standard_normal(shape) / np.sqrt(hidden)).astype(np.float32)

    inputs = [info("x", F, ["steps", "batch", size])] + ([info("lens", TensorProto.INT32, ["batch"])] if lens else [])
    outputs = ["y", "h"] + (["c"] if op == "LSTM" else [])
    attributes = {"direction": direction, "hidden_size": hidden}
    if op == "GRU":
        attributes["linear_before_reset"] = linear_before_reset
    node = helper.make_node(op, ["x", "w", "r", "b"] + (["lens"] if lens else []), outputs, **attributes)
    constants = [("w", weights(count, gates * hidden, size)), ("r", weights(count, gates * hidden, hidden)),
                 ("b", weights(count, 2 * gates * hidden))]

    def feeds():
        for steps in LENGTHS:
            for batch in (1, 16) if steps <= 500 else (1,):
                feed = {"x": random.standard_normal((steps, batch, size)).astype(np.float32)}
                if lens:
                    feed["lens"] = random.integers(1, steps + 1, batch).astype(np.int32)
                yield feed

    return model([node], inputs, [(name, F) for name in outputs], constants), feeds


def body(nodes, inputs, outputs, constants=()):
    return helper.make_graph(nodes, "body", [info(*each) for each in inputs], [info(*each) for each in outputs],
                             [numpy_helper.from_array(np.asarray(value), name) for name, value in constants])


COUNTED = [("i", I, []), ("go", B, [])]
ROWS = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0)]
ZERO = ("zero", np.int64(0))


def rows_of(counts, width=4):
    def feeds():
        random = np.random.default_rng(3)
        for count in counts:
            yield {"x": random.standard_normal((count, width)).astype(np.float32)}
    return feeds


def running_sum():
    """Carried and collected values; the trip count is a size."""
    inner = body([helper.make_node("Gather", ["x", "i"], ["row"], axis=0), helper.make_node("Add", ["s", "row"], ["next"]),
                  helper.make_node("Mul", ["next", "next"], ["square"]), helper.make_node("Identity", ["go"], ["on"])],
                 COUNTED + [("s", F, [4])], [("on", B, []), ("next", F, [4]), ("square", F, [4])])
    loop = helper.make_node("Loop", ["n", "", "start"], ["last", "all"], body=inner)
    return model([*ROWS, loop], [info("x", F, ["rows", 4])], [("last", F), ("all", F)],
                 [ZERO, ("start", np.ones(4, np.float32))]), rows_of((1, 5, 40, 1000))


def swapped():
    """Two carried values change places in each iteration, a third stays."""
    inner = body([helper.make_node("Add", ["a", "k"], ["more"]), helper.make_node("Identity", ["go"], ["on"]),
                  helper.make_node("Identity", ["b"], ["first"]), helper.make_node("Identity", ["k"], ["same"])],
                 COUNTED + [("a", F, [4]), ("b", F, [4]), ("k", F, [4])],
                 [("on", B, []), ("first", F, [4]), ("more", F, [4]), ("same", F, [4])])
    loop = helper.make_node("Loop", ["n", "", "start", "row", "step"], ["p", "q", "r"], body=inner)
    return model([*ROWS, helper.make_node("ReduceSum", ["x", "axis"], ["row"], keepdims=0), loop],
                 [info("x", F, ["rows", 4])], [("p", F), ("q", F), ("r", F)],
                 [ZERO, ("axis", np.array([0])), ("start", np.ones(4, np.float32)), ("step", np.full(4, .5, np.float32))]
                 ), rows_of((1, 2, 20, 33))


def halved(limited):
    """As long as a value is above a threshold, with or without a trip count that is an input."""
    inner = body([helper.make_node("Mul", ["v", "half"], ["next"]), helper.make_node("ReduceMax", ["next"], ["m"], keepdims=0),
                  helper.make_node("Greater", ["m", "least"], ["on"]), helper.make_node("Add", ["k", "one"], ["more"])],
                 COUNTED + [("v", F, [4]), ("k", I, [])], [("on", B, []), ("next", F, [4]), ("more", I, [])])
    nodes = [helper.make_node("ReduceMax", ["x"], ["m0"], keepdims=0), helper.make_node("Greater", ["m0", "least"], ["begin"]),
             helper.make_node("Loop", ["most" if limited else "", "begin", "x", "zero"], ["y", "count"], body=inner)]
    inputs = [info("x", F, [4])] + ([info("most", I, [])] if limited else [])

    def feeds():
        random = np.random.default_rng(5)
        for scale in (1e-3, 1, 1e3, 1e6):
            feed = {"x": (np.abs(random.standard_normal(4)) * scale + .001).astype(np.float32)}
            yield feed | ({"most": np.array(7)} if limited else {})

    return model(nodes, inputs, [("y", F), ("count", I)],
                 [ZERO, ("half", np.float32(.5)), ("least", np.float32(.01)), ("one", np.int64(1))]), feeds


def nested():
    """A loop over rows, in it one over columns that reads the outer one's number."""
    deep = body([helper.make_node("Gather", ["row", "j"], ["e"], axis=0), helper.make_node("Cast", ["i"], ["f"], to=F),
                 helper.make_node("Add", ["e", "f"], ["g"]), helper.make_node("Add", ["t", "g"], ["more"]),
                 helper.make_node("Identity", ["go2"], ["on2"])],
                [("j", I, []), ("go2", B, []), ("t", F, [])], [("on2", B, []), ("more", F, [])])
    inner = body([helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
                  helper.make_node("Loop", ["columns", "", "s"], ["total"], body=deep),
                  helper.make_node("Identity", ["total"], ["kept"]), helper.make_node("Identity", ["go"], ["on"])],
                 COUNTED + [("s", F, [])], [("on", B, []), ("total", F, []), ("kept", F, [])])
    nodes = [*ROWS, helper.make_node("Gather", ["shape", "one"], ["columns"], axis=0),
             helper.make_node("Loop", ["n", "", "start"], ["last", "all"], body=inner)]

    def feeds():
        random = np.random.default_rng(9)
        for rows, columns in ((1, 1), (3, 5), (20, 7)):
            yield {"x": random.standard_normal((rows, columns)).astype(np.float32)}

    return model(nodes, [info("x", F, ["rows", "columns"])], [("last", F), ("all", F)],
                 [ZERO, ("one", np.int64(1)), ("start", np.float32(0))]), feeds


def scan(backwards):
    """A state and two sequences, one along its second dimension; an output along its second, too."""
    inner = body([helper.make_node("Mul", ["s", "u"], ["p"]), helper.make_node("Add", ["p", "v"], ["next"]),
                  helper.make_node("Relu", ["next"], ["out"]), helper.make_node("Neg", ["p"], ["other"])],
                 [("s", F, [3]), ("u", F, [3]), ("v", F, [3])], [("next", F, [3]), ("out", F, [3]), ("other", F, [3])])
    flags = {"scan_input_directions": [backwards, 0], "scan_output_directions": [0, backwards]}
    node = helper.make_node("Scan", ["start", "x", "z"], ["last", "all", "others"], num_scan_inputs=2,
                            scan_input_axes=[0, 1], scan_output_axes=[1, 0], body=inner, **flags)

    def feeds():
        random = np.random.default_rng(11)
        for count in (1, 4, 18, 300):
            yield {"x": random.uniform(-.9, .9, (count, 3)).astype(np.float32),
                   "z": random.standard_normal((3, count)).astype(np.float32)}

    return model([node], [info("x", F, ["steps", 3]), info("z", F, [3, "steps"])],
                 [("last", F), ("all", F), ("others", F)], [("start", np.ones(3, np.float32))]), feeds


SQUARE = np.random.default_rng(1).uniform(-.2, .2, (2, 8, 8)).astype(np.float32)


def branch(nodes, outputs):
    return body(nodes, [], outputs)


def scales():
    """Rows whose sum is positive and rows whose sum is negative."""
    random = np.random.default_rng(13)
    for sign in (1, -1, 1):
        yield {"x": (np.abs(random.standard_normal((3, 8))) * sign).astype(np.float32)}


def branches(one_armed):
    """An If on a sum: products in both branches, or in one; a second output that one of them only passes on."""
    then = branch([helper.make_node("MatMul", ["x", "a"], ["p"]), helper.make_node("Relu", ["p"], ["then_y"]),
                   helper.make_node("Identity", ["x"], ["then_z"])], [("then_y", F, None), ("then_z", F, None)])
    other = [helper.make_node("Identity", ["x"], ["else_y"])] if one_armed else \
        [helper.make_node("MatMul", ["x", "b"], ["else_y"])]
    other = branch([*other, helper.make_node("Softmax", ["x"], ["else_z"])], [("else_y", F, None), ("else_z", F, None)])
    nodes = [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "none"], ["c"]),
             helper.make_node("If", ["c"], ["y", "z"], then_branch=then, else_branch=other)]
    return model(nodes, [info("x", F, ["rows", 8])], [("y", F), ("z", F)],
                 [("none", np.float32(0)), ("a", SQUARE[0]), ("b", SQUARE[1])]), scales


def branch_in_loop():
    """Rows of one sign go one way, those of the other another one; a branch has a loop that ends on data."""
    halve = body([helper.make_node("Mul", ["v", "half"], ["next"]), helper.make_node("ReduceMax", ["next"], ["m"], keepdims=0),
                  helper.make_node("Greater", ["m", "least"], ["on"])],
                 [("j", I, []), ("go2", B, []), ("v", F, [8])], [("on", B, []), ("next", F, [8])])
    then = branch([helper.make_node("Add", ["s", "row"], ["more"]),
                   helper.make_node("Loop", ["", "yes", "more"], ["then_s"], body=halve)], [("then_s", F, None)])
    other = branch([helper.make_node("MatMul", ["s", "a"], ["p"]), helper.make_node("Add", ["p", "row"], ["else_s"])],
                   [("else_s", F, None)])
    inner = body([helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
                  helper.make_node("ReduceSum", ["row"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "none"], ["c"]),
                  helper.make_node("If", ["c"], ["new"], then_branch=then, else_branch=other),
                  helper.make_node("Identity", ["new"], ["kept"]), helper.make_node("Identity", ["go"], ["on1"])],
                 COUNTED + [("s", F, [8])], [("on1", B, []), ("new", F, [8]), ("kept", F, [8])])
    loop = helper.make_node("Loop", ["n", "", "start"], ["last", "all"], body=inner)

    def feeds():
        random = np.random.default_rng(15)
        for count in (1, 6, 40):
            yield {"x": random.standard_normal((count, 8)).astype(np.float32)}

    return model([*ROWS, loop], [info("x", F, ["rows", 8])], [("last", F), ("all", F)],
                 [ZERO, ("none", np.float32(0)), ("a", SQUARE[0]), ("half", np.float32(.5)), ("least", np.float32(1)),
                  ("yes", np.array(True)), ("start", np.ones(8, np.float32))]), feeds


def beam_search():
    """Three beams of a recurrent decoder until each has met its end, or a limit that is an input: best of all
    continuations, states and texts of the beams that they continue."""
    beams, words, width, longest, end = 3, 11, 8, 24, 1
    random = np.random.default_rng(17)

    def weights(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs, [output], **attributes)

    inner = body([
        node("Gather", ["table", "last"], "e", axis=0), node("MatMul", ["h", "u"], "hu"), node("Add", ["e", "hu"], "a"),
        node("Tanh", ["a"], "g"), node("MatMul", ["g", "v"], "logits"), node("LogSoftmax", ["logits"], "p", axis=-1),
        # A beam at its end goes on with that word alone, at no cost.
        node("Unsqueeze", ["done", "second"], "d"), node("Where", ["d", "only_end", "p"], "q"),
        node("Unsqueeze", ["score", "second"], "s"), node("Add", ["s", "q"], "all"), node("Reshape", ["all", "flat"], "f"),
        helper.make_node("TopK", ["f", "beams"], ["best", "at"], axis=0),
        node("Div", ["at", "words"], "beam"), node("Mod", ["at", "words"], "word"),
        node("Gather", ["g", "beam"], "next_h", axis=0), node("Gather", ["done", "beam"], "was", axis=0),
        node("Equal", ["word", "end"], "ends"), node("Or", ["was", "ends"], "is"), node("Gather", ["text", "beam"], "t", axis=0),
        node("Unsqueeze", ["word", "second"], "w"),
        node("Equal", ["places", "i"], "here"), node("Where", ["here", "w", "t"], "more"),
        node("Cast", ["is"], "n", to=I), node("ReduceMin", ["n"], "every", keepdims=0), node("Equal", ["every", "none"], "on")],
        COUNTED + [("last", I, [beams]), ("h", F, [beams, width]), ("score", F, [beams]), ("done", B, [beams]), ("text", I, [beams, longest])],
        [("on", B, []), ("word", I, [beams]), ("next_h", F, [beams, width]), ("best", F, [beams]), ("is", B, [beams]),
         ("more", I, [beams, longest])])
    nodes = [node("MatMul", ["x", "from_x"], "start"),
             helper.make_node("Loop", ["most", "go", "first_word", "start", "first_score", "first_done", "first_text"],
                              ["last_word", "state", "scores", "ended", "texts"], body=inner)]

    def feeds():
        for most in (0, 1, 4, 13, longest):
            yield {"x": random.standard_normal((beams, 5)).astype(np.float32), "most": np.array(most)}

    only_end = np.full(words, -1e9, np.float32)
    only_end[end] = 0
    constants = [("table", weights(words, width)), ("u", weights(width, width) / 2), ("v", weights(width, words)),
                 ("from_x", weights(5, width)), ("second", np.array([1])), ("only_end", only_end), ("flat", np.array([-1])),
                 ("beams", np.array([beams])), ("words", np.int64(words)), ("end", np.int64(end)), ("none", np.int64(0)),
                 ("places", np.arange(longest)[None]), ("go", np.array(True)), ("first_word", np.zeros(beams, np.int64)),
                 ("first_score", np.array([0, -1e9, -1e9], np.float32)), ("first_done", np.zeros(beams, bool)),
                 ("first_text", np.zeros((beams, longest), np.int64))]
    return model(nodes, [info("x", F, [beams, 5]), info("most", I, [])],
                 [("scores", F), ("texts", I), ("ended", B), ("state", F)], constants), feeds


def growing(axis, behind):
    """A carried value that each iteration adds a row or a column to, behind or in front of those that are there."""
    inner = body([helper.make_node("Gather", ["x", "i"], ["row"], axis=0), helper.make_node("Mul", ["row", "s"], ["next"]),
                  helper.make_node("Unsqueeze", ["next", "axis"], ["piece"]), helper.make_node("Identity", ["go"], ["on"]),
                  helper.make_node("Concat", ["all", "piece"] if behind else ["piece", "all"], ["more"], axis=axis)],
                 COUNTED + [("s", F, [4]), ("all", F, [None, None])], [("on", B, []), ("next", F, [4]), ("more", F, [None, None])])
    loop = helper.make_node("Loop", ["n", "", "start", "none"], ["last", "every"], body=inner)
    first = np.arange(8, dtype=np.float32)
    return model([*ROWS, loop], [info("x", F, ["rows", 4])], [("last", F), ("every", F)],
                 [ZERO, ("axis", np.array([axis % 2])), ("start", np.ones(4, np.float32)),
                  ("none", first.reshape((2, 4) if axis % 2 == 0 else (4, 2)))]), rows_of((1, 5, 40))


def ended_by_data(shrinks):
    """A carried value that grows by a row, or loses rows that are used up, as long as its sum says so, with what each
    iteration finds."""
    change = ([helper.make_node("Greater", ["all", "one"], ["flags"]), helper.make_node("Compress", ["all", "flags"], ["kept"]),
               helper.make_node("Sub", ["kept", "one"], ["more"])] if shrinks else
              [helper.make_node("Concat", ["all", "piece"], ["more"], axis=0)])
    inner = body([*change, helper.make_node("ReduceSum", ["more"], ["sum"], keepdims=0), helper.make_node("Abs", ["sum"], ["each"]),
                  helper.make_node("Greater" if shrinks else "Less", ["sum", "most"], ["on"])],
                 COUNTED + [("all", F, [None])], [("on", B, []), ("more", F, [None]), ("each", F, [])])

    def feeds():
        for most, values in ((7, [1, 2]), (0, [9]), (31, [4, 4, 1]), (3, [1, 7, 2, 2, 5]), (90, [8])):
            yield {"x": np.array(values, np.float32), "most": np.array(most, np.float32)}

    return model([helper.make_node("Loop", ["trips", "go", "x"], ["last", "every"], body=inner)],
                 [info("x", F, ["rows"]), info("most", F, [])], [("last", F), ("every", F)],
                 [("trips", np.int64(50)), ("go", np.array(True)), ("piece", np.array([2], np.float32)), ("one", np.float32(1))]), feeds


def growing_by_data():
    """As many iterations as rows are positive; each adds a picture in which a part of a size that it finds is resized and
    put to its place, as detectors paste masks."""
    inner = body([helper.make_node("Gather", ["size", "i"], ["n"], axis=0), helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
                  helper.make_node("Concat", ["n", "one"], ["both"], axis=0), helper.make_node("ReduceMax", ["both"], ["part"], keepdims=1),
                  helper.make_node("Reshape", ["row", "as_picture"], ["picture"]),
                  helper.make_node("Concat", ["ones", "part", "part"], ["sizes"], axis=0),
                  helper.make_node("Resize", ["picture", "", "", "sizes"], ["large"], mode="linear"),
                  helper.make_node("Squeeze", ["large", "zero_and_one"], ["plane"]),
                  helper.make_node("Sub", ["side", "part"], ["rest"]), helper.make_node("Concat", ["rest", "part"], ["above"], axis=0),
                  helper.make_node("ConstantOfShape", ["above"], ["zeros"]), helper.make_node("Concat", ["zeros", "plane"], ["tall"], axis=0),
                  helper.make_node("Concat", ["side", "rest"], ["beside"], axis=0), helper.make_node("ConstantOfShape", ["beside"], ["more_zeros"]),
                  helper.make_node("Concat", ["tall", "more_zeros"], ["whole"], axis=1),
                  helper.make_node("Unsqueeze", ["whole", "first"], ["piece"]), helper.make_node("Identity", ["go"], ["on"]),
                  helper.make_node("Concat", ["all", "piece"], ["more"], axis=0)],
                 COUNTED + [("all", F, [None, 9, 9])], [("on", B, []), ("more", F, [None, 9, 9])])
    nodes = [helper.make_node("Gather", ["x0", "zero"], ["column"], axis=1), helper.make_node("Greater", ["column", "level"], ["mask"]),
             helper.make_node("NonZero", ["mask"], ["places"]), helper.make_node("Squeeze", ["places", "first"], ["p"]),
             helper.make_node("Gather", ["x0", "p"], ["x"], axis=0), helper.make_node("Shape", ["x"], ["shape"]),
             helper.make_node("Gather", ["shape", "zero"], ["trips"], axis=0),
             helper.make_node("Slice", ["x", "first", "first_end", "second"], ["heads"]),
             helper.make_node("Mul", ["heads", "four"], ["scaled"]), helper.make_node("Cast", ["scaled"], ["size"], to=I),
             helper.make_node("Loop", ["trips", "", "none"], ["every"], body=inner)]

    def feeds():
        random = np.random.default_rng(19)
        for count in (1, 3, 12, 40):
            yield {"x0": random.uniform(-2, 2, (count, 4)).astype(np.float32)}

    return model(nodes, [info("x0", F, ["rows", 4])], [("every", F)],
                 [ZERO, ("one", np.array([1])), ("first", np.array([0])), ("first_end", np.array([1])), ("second", np.array([1])),
                  ("zero_and_one", np.array([0, 1])), ("ones", np.array([1, 1])), ("side", np.array([9])), ("four", np.float32(4)),
                  ("level", np.float32(0)), ("as_picture", np.array([1, 1, 2, 2])), ("none", np.zeros((0, 9, 9), np.float32))]), \
        feeds, ["--bound", "Loop_10/part=9"]


def cases():
    for op in ("LSTM", "GRU", "RNN"):
        for direction in ("forward", "reverse", "bidirectional"):
            for lens in (False, True):
                yield f"{op.lower()}_{direction}{'_lens' if lens else ''}", recurrent(op, direction, lens)
    yield "gru_linear_before_reset", recurrent("GRU", "bidirectional", True, 1)
    yield "running_sum", running_sum()
    yield "swapped", swapped()
    yield "halved", halved(False)
    yield "halved_limited", halved(True)
    yield "nested", nested()
    yield "branches", branches(False)
    yield "branches_one_armed", branches(True)
    yield "branch_in_loop", branch_in_loop()
    yield "beam_search", beam_search()
    for axis in (0, 1, -1):
        for behind in (True, False):
            yield f"growing_{axis}_{'behind' if behind else 'in_front'}", growing(axis, behind)
    yield "growing_by_data", growing_by_data()
    yield "ended_by_data_grows", ended_by_data(False)
    yield "ended_by_data_shrinks", ended_by_data(True)
    yield "scan_forwards", scan(0)
    yield "scan_backwards", scan(1)


if __name__ == "__main__":
    sys.exit(main(cases, __doc__))
