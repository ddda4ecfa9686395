# SPDX-License-Identifier: Apache-2.0
"""Models that hold others: branches, loops, recurrent layers, functions; einsums and selections."""
from onnx import GraphProto, ModelProto, helper

from parts import BOOL, INT64, OPSET, floats, ints, model, node, one_node, scalar, value


def branch(nodes, outputs, initializers=()) -> GraphProto:
    return helper.make_graph(list(nodes), "b", [], list(outputs), list(initializers))


def nested_ifs(depth: int, both: bool = True) -> ModelProto:
    """Both branches of each condition hold the next: 2^depth copies."""

    def level(at: int) -> GraphProto:
        name = f"y{at}"
        if at == depth:
            return branch([node("Relu", ["x"], [name])], [value(name, [4])])
        then = level(at + 1)
        other = then if both else branch([node("Neg", ["x"], [f"y{at + 1}"])], [value(f"y{at + 1}", [4])])
        return branch([node("If", ["c"], [name], then_branch=then, else_branch=other)], [value(name, [4])])

    top = level(0)
    return model(list(top.node), [value("x", [4]), value("c", [], BOOL)], [value("y0", [4])])


def loop(trips: int, body_nodes: int = 1, nested: int = 0) -> ModelProto:
    def body(at: int) -> GraphProto:
        nodes = [node("Identity", [f"go{at}"], [f"on{at}"])]
        if at < nested:
            nodes.append(node("Loop", ["trips", "", f"v{at}"], [f"w{at}"], body=body(at + 1)))
        else:
            ops = ["Tanh", "Exp"]
            nodes += [node(ops[i % 2], [f"v{at}" if i == 0 else f"t{at}_{i}"],
                           [f"w{at}" if i + 1 == body_nodes else f"t{at}_{i + 1}"]) for i in range(body_nodes)]
        return helper.make_graph(nodes, f"body{at}", [value(f"i{at}", [], INT64), value(f"go{at}", [], BOOL),
                                                      value(f"v{at}", [4])],
                                 [value(f"on{at}", [], BOOL), value(f"w{at}", [4])])

    return model([node("Loop", ["trips", "", "x"], ["y"], body=body(0))], [value("x", [4])], [value("y", [4])],
                 [scalar("trips", trips)])


def scan(length: int, width: int = 1) -> ModelProto:
    nodes = [node("Add", ["s", "e"], ["t0"])]
    nodes += [node("Tanh" if i % 2 else "Sigmoid", [f"t{i}"], [f"t{i + 1}"]) for i in range(width)]
    nodes.append(node("Identity", [f"t{width}"], ["o"]))
    body = helper.make_graph(nodes, "body", [value("s", [4]), value("e", [4])],
                             [value(f"t{width}", [4]), value("o", [4])])
    return model([node("Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1)],
                 [value("s0", [4]), value("x", [length, 4])], [value("last", [4]), value("all", [length, 4])])


def recurrent(op: str, length: int, gates: int, direction: str = "forward") -> ModelProto:
    ways = 2 if direction == "bidirectional" else 1
    hidden, size = 8, 8
    return model([node(op, ["x", "w", "r"], ["y"], hidden_size=hidden, direction=direction)],
                 [value("x", [length, 1, size])], [value("y", [length, ways, 1, hidden])],
                 [floats("w", ways, gates * hidden, size), floats("r", ways, gates * hidden, hidden)], 14)


def stacked_recurrent(op: str, layers: int, length: int, gates: int) -> ModelProto:
    nodes, hidden = [], 8
    for i in range(layers):
        nodes += [node(op, [f"v{i}", "w", "r"], [f"y{i}"], hidden_size=hidden),
                  node("Squeeze", [f"y{i}", "one"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [length, 1, hidden])], [value(f"v{layers}", None)],
                 [floats("w", 1, gates * hidden, hidden), floats("r", 1, gates * hidden, hidden), ints("one", 1)], 14)


def functions(depth: int, calls: int = 2) -> ModelProto:
    made = []
    for i in range(depth):
        nodes, last = [], "a"
        for k in range(calls):
            out = f"t{k}"
            inner = helper.make_node(f"F{i + 1}", [last], [out], domain="local") if i + 1 < depth else node("Tanh", [last], [out])
            nodes.append(inner)
            last = out
        made.append(helper.make_function("local", f"F{i}", ["a"], [last], nodes,
                                         [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]))
    return model([helper.make_node("F0", ["x"], ["y"], domain="local")], [value("x", [4])], [value("y", [4])],
                 functions=made)


def einsum(letters: int) -> ModelProto:
    names = "abcdefghijklmnopqrstuvwxyz"[:letters]
    return one_node("Einsum", (), [2] * letters, equation=f"{names}->{names[::-1]}", out_rank=letters)


def einsum_of_many(count: int) -> ModelProto:
    equation = ",".join(["ij"] * count) + "->ij"
    return model([node("Einsum", [f"x{i}" for i in range(count)], ["y"], equation=equation)],
                 [value(f"x{i}", [4, 4]) for i in range(count)], [value("y", [4, 4])])


def suppression(boxes: int, most: int) -> ModelProto:
    nodes = [node("NonMaxSuppression", ["b", "s", "most"], ["y"])]
    return model(nodes, [value("b", [1, boxes, 4]), value("s", [1, 1, boxes])], [value("y", [None, 3], INT64)],
                 [ints("most", most)])
