# SPDX-License-Identifier: Apache-2.0
"""Models of many nodes: chains, towers, pieces, symbols and random graphs."""
import random

from onnx import ModelProto

from parts import FLOAT, INT64, floats, ints, model, node, one_node, value


def chain(count: int, op: str = "Relu", shape=(4,)) -> ModelProto:
    nodes = [node(op, [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", list(shape))], [value(f"v{count}", list(shape))])


def chain_of_two(count: int, ops=("Tanh", "Sigmoid"), shape=(4,)) -> ModelProto:
    nodes = [node(ops[i % len(ops)], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", list(shape))], [value(f"v{count}", list(shape))])


def chain_with_x(count: int, op: str = "Add") -> ModelProto:
    nodes = [node(op, [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("x", [4])], [value(f"v{count}", [4])])


def chain_with_constant(count: int, op: str = "Mul") -> ModelProto:
    nodes = [node(op, [f"v{i}", "c"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])], [floats("c", 1)])


def chain_of_three(count: int, op: str = "Div") -> ModelProto:
    """v = op(v, w), w = op(w, u), u = op(u, v): three values that each step mixes."""
    names, nodes = ["x", "z", "u"], []
    for i in range(count):
        at = i % 3
        nodes.append(node(op, [names[at], names[(at + 1) % 3]], [f"v{i}"]))
        names[at] = f"v{i}"
    return model(nodes, [value(each, [4]) for each in ("x", "z", "u")], [value(each, [4]) for each in names])


def squares(count: int, op: str = "Mul") -> ModelProto:
    nodes = [node(op, [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])])


def fibonacci(count: int, op: str = "Add") -> ModelProto:
    nodes = [node(op, [f"v{i}", f"v{i + 1}"], [f"v{i + 2}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("v1", [4])], [value(f"v{count + 1}", [4])])


def chain_of_products(count: int) -> ModelProto:
    nodes = [node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])], [floats("w", 4, 4)])


def chain_of_softmaxes(count: int) -> ModelProto:
    nodes = [node("Softmax", [f"v{i}"], [f"v{i + 1}"], axis=-1) for i in range(count)]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])])


def chain_of_reductions(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("ReduceMean", [f"v{i}"], [f"m{i}"], keepdims=1), node("Sub", [f"v{i}", f"m{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4, 4])], [value(f"v{count}", [4, 4])])


def chain_of_views(count: int) -> ModelProto:
    """Reshape and transpose in turns, which no two of cancel."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "a" if i % 2 else "b"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"v{i + 1}"], perm=[1, 0])]
    return model(nodes, [value("v0", [6, 10])], [value(f"v{count}", None)], [ints("a", 6, 10), ints("b", 4, 15)])


def tower_of_views(count: int) -> ModelProto:
    """The same with arithmetic in between and dimensions without common factors."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", f"s{i % 3}"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"t{i}"], perm=[2, 0, 1]),
                  node("Add", [f"t{i}", f"t{i}" if i % 2 else "one"], [f"v{i + 1}"])]
    shapes = [ints("s0", 7, 60, 11), ints("s1", 10, 77, 6), ints("s2", 4, 21, 55)]
    return model(nodes, [value("v0", [60, 77])], [value(f"v{count}", None)], shapes + [floats("one", 1)])


def symbolic_views(count: int) -> ModelProto:
    """Windows of a picture of unknown size, as vision transformers cut them, joined again."""
    nodes = []
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "cut"], [f"r{i}"]),
                  node("Transpose", [f"r{i}"], [f"t{i}"], perm=[0, 2, 1, 3]),
                  node("Reshape", [f"t{i}", "join"], [f"j{i}"]),
                  node("Add", [f"j{i}", f"v{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", ["n", 12, 35])], [value(f"v{count}", None)],
                 [ints("cut", 0, 4, 3, 35), ints("join", 0, 12, 35)])


def chain_of_slices_and_concats(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Slice", [f"v{i}", "one", "end"], [f"a{i}"]), node("Slice", [f"v{i}", "zero", "one"], [f"b{i}"]),
                  node("Concat", [f"a{i}", f"b{i}"], [f"v{i + 1}"], axis=0)]
    return model(nodes, [value("v0", [8])], [value(f"v{count}", None)], [ints("zero", 0), ints("one", 1), ints("end", 8)])


def shuffled_channels(count: int) -> ModelProto:
    """ShuffleNet's units: split, work on one half, join, shuffle."""
    nodes = []
    for i in range(count):
        nodes += [node("Split", [f"v{i}"], [f"a{i}", f"b{i}"], axis=1, num_outputs=2),
                  node("Relu", [f"b{i}"], [f"c{i}"]), node("Concat", [f"a{i}", f"c{i}"], [f"d{i}"], axis=1),
                  node("Reshape", [f"d{i}", "apart"], [f"e{i}"]),
                  node("Transpose", [f"e{i}"], [f"f{i}"], perm=[0, 2, 1, 3, 4]),
                  node("Reshape", [f"f{i}", "together"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [1, 16, 4, 4])], [value(f"v{count}", None)],
                 [ints("apart", 1, 2, 8, 4, 4), ints("together", 1, 16, 4, 4)])


def shuffled_convolutions(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Split", [f"v{i}"], [f"a{i}", f"b{i}"], axis=1, num_outputs=2),
                  node("Conv", [f"b{i}", "w"], [f"k{i}"], pads=[1, 1, 1, 1]), node("Relu", [f"k{i}"], [f"c{i}"]),
                  node("Concat", [f"a{i}", f"c{i}"], [f"d{i}"], axis=1),
                  node("Reshape", [f"d{i}", "apart"], [f"e{i}"]),
                  node("Transpose", [f"e{i}"], [f"f{i}"], perm=[0, 2, 1, 3, 4]),
                  node("Reshape", [f"f{i}", "together"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [1, 16, 4, 4])], [value(f"v{count}", None)],
                 [ints("apart", 1, 2, 8, 4, 4), ints("together", 1, 16, 4, 4), floats("w", 8, 8, 3, 3)])


def chain_of_pads(count: int) -> ModelProto:
    nodes = [node("Pad", [f"v{i}", "pads"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", None)], [ints("pads", 1, 1)])


def chain_of_gathers(count: int) -> ModelProto:
    nodes = [node("Gather", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [value("v0", [4]), value("x", [4], INT64)], [value(f"v{count}", None)])


def chain_of_casts(count: int) -> ModelProto:
    nodes = [node("Cast", [f"v{i}"], [f"v{i + 1}"], to=INT64 if i % 2 == 0 else FLOAT) for i in range(count)]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4], FLOAT if count % 2 == 0 else INT64)])


def chain_of_shapes(count: int) -> ModelProto:
    """Sizes that are computed from sizes."""
    nodes = [node("Shape", ["x"], ["s0"])]
    nodes += [node("Add", [f"s{i}", "s0"], [f"s{i + 1}"]) for i in range(count)]
    nodes += [node("ConstantOfShape", [f"s{count}"], ["c"]), node("Add", ["c", "y"], ["z"])]
    return model(nodes, [value("x", ["n"]), value("y", [1])], [value("z", [None])])


def divided_sizes(count: int) -> ModelProto:
    nodes = [node("Shape", ["x"], ["s0"])]
    for i in range(count):
        nodes += [node("Add", [f"s{i}", "three"], [f"a{i}"]), node("Div", [f"a{i}", "two"], [f"d{i}"]),
                  node("Max", [f"d{i}", "one"], [f"m{i}"]), node("Add", [f"m{i}", "s0"], [f"s{i + 1}"])]
    nodes += [node("ConstantOfShape", [f"s{count}"], ["c"]), node("Add", ["c", "y"], ["z"])]
    return model(nodes, [value("x", ["n"]), value("y", [1])], [value("z", [None])],
                 [ints("one", 1), ints("two", 2), ints("three", 3)])


def chain_of_norms(count: int) -> ModelProto:
    """LayerNorms and GELUs as exporters spell them, each upon the last."""
    nodes = []
    for i in range(count):
        nodes += [node("ReduceMean", [f"v{i}"], [f"m{i}"], axes=[-1]), node("Sub", [f"v{i}", f"m{i}"], [f"d{i}"]),
                  node("Mul", [f"d{i}", f"d{i}"], [f"q{i}"]), node("ReduceMean", [f"q{i}"], [f"s{i}"], axes=[-1]),
                  node("Add", [f"s{i}", "eps"], [f"e{i}"]), node("Sqrt", [f"e{i}"], [f"r{i}"]),
                  node("Div", [f"d{i}", f"r{i}"], [f"n{i}"]), node("Mul", [f"n{i}", "scale"], [f"k{i}"]),
                  node("Add", [f"k{i}", "scale"], [f"l{i}"]), node("Add", [f"l{i}", f"v{i}"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4, 16])], [value(f"v{count}", [4, 16])], [floats("eps", 1), floats("scale", 16)], 13)


def same_nodes(count: int) -> ModelProto:
    """Nodes that compute the same, which become one of as many origins."""
    nodes = [node("Relu", ["x"], [f"v{i}"]) for i in range(count)]
    nodes.append(node("Sum", [f"v{i}" for i in range(count)], ["y"]))
    return model(nodes, [value("x", [4])], [value("y", [4])])


def many_outputs(count: int) -> ModelProto:
    ops = ["Relu", "Neg", "Abs", "Exp"]
    nodes = [node(ops[i % 4], [f"v{i // 4}" if i >= 4 else "x"], [f"v{i}"]) for i in range(4, count)]
    nodes = [node("Relu", ["x"], ["v0"]), node("Neg", ["x"], ["v1"]), node("Abs", ["x"], ["v2"]),
             node("Exp", ["x"], ["v3"])] + nodes
    return model(nodes, [value("x", [4])], [value(f"v{i}", [4]) for i in range(count)])


def same_output(count: int) -> ModelProto:
    nodes = [node("Identity", ["x"], [f"v{i}"]) for i in range(count)]
    return model(nodes, [value("x", [4])], [value(f"v{i}", [4]) for i in range(count)])


def many_inputs(count: int, op: str = "Sum") -> ModelProto:
    how = {"axis": 0} if op == "Concat" else {}
    return model([node(op, [f"x{i}" for i in range(count)], ["y"], **how)], [value(f"x{i}", [4]) for i in range(count)],
                 [value("y", [None])])


def unused_inputs(count: int) -> ModelProto:
    return model([node("Relu", ["x0"], ["y"])], [value(f"x{i}", [4]) for i in range(count)], [value("y", [4])])


def pieces(count: int, then: str) -> ModelProto:
    names = [f"p{i}" for i in range(count)]
    nodes = [node("Split", ["x"], names, axis=0, num_outputs=count)]
    if then == "outputs":
        return model(nodes, [value("x", [count])], [value(name, [1]) for name in names])
    if then == "changed":
        nodes += [node("Relu" if i % 2 else "Exp", [name], [f"q{i}"]) for i, name in enumerate(names)]
        names = [f"q{i}" for i in range(count)]
    nodes.append(node("Sum", names, ["y"]) if then == "summed" else node("Concat", names, ["y"], axis=0))
    return model(nodes, [value("x", [count])], [value("y", [None])])


def symbols(count: int) -> ModelProto:
    """Every input has a dimension of its own."""
    return model([node("Concat", [f"x{i}" for i in range(count)], ["y"], axis=0)],
                 [value(f"x{i}", [f"n{i}"]) for i in range(count)], [value("y", [None])])


def symbols_apart(count: int) -> ModelProto:
    nodes = [node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(count)]
    return model(nodes, [value(f"x{i}", [f"n{i}"]) for i in range(count)],
                 [value(f"y{i}", [f"n{i}"]) for i in range(count)])


def rank_of_symbols(count: int) -> ModelProto:
    return one_node("Relu", (), [f"n{i}" for i in range(count)])


def product_of_symbols(count: int) -> ModelProto:
    return model([node("Reshape", ["x", "flat"], ["r"]), node("Exp", ["r"], ["y"])],
                 [value("x", [f"n{i}" for i in range(count)])], [value("y", [None])], [ints("flat", -1)])


def powers_of_sums(count: int) -> ModelProto:
    """(a + b)^2^count elements."""
    nodes = [node("Concat", ["x", "z"], ["v0"], axis=0)]
    for i in range(count):
        nodes += [node("Reshape", [f"v{i}", "column"], [f"l{i}"]), node("Reshape", [f"v{i}", "row"], [f"r{i}"]),
                  node("Mul", [f"l{i}", f"r{i}"], [f"m{i}"]), node("Reshape", [f"m{i}", "flat"], [f"v{i + 1}"])]
    return model(nodes, [value("x", ["a"]), value("z", ["b"])], [value(f"v{count}", [None])],
                 [ints("column", -1, 1), ints("row", 1, -1), ints("flat", -1)])


def random_graph(count: int, seed: int = 0) -> ModelProto:
    draw = random.Random(seed)
    names, nodes = ["x", "z"], []
    for i in range(count):
        a, b = draw.choice(names[-50:]), draw.choice(names[-50:])
        if draw.random() < 0.5:
            nodes.append(node(draw.choice(["Relu", "Tanh", "Neg", "Exp", "Sqrt"]), [a], [f"v{i}"]))
        else:
            nodes.append(node(draw.choice(["Add", "Mul", "Sub", "Max"]), [a, b], [f"v{i}"]))
        names.append(f"v{i}")
    return model(nodes, [value("x", [4, 4]), value("z", [4, 4])], [value(name, [4, 4]) for name in names[-8:]])


def random_mix(count: int, seed: int = 1) -> ModelProto:
    """Reductions, products and transposes among arithmetic."""
    draw = random.Random(seed)
    names, nodes = ["x", "z"], []
    for i in range(count):
        a, b = draw.choice(names[-20:]), draw.choice(names[-20:])
        kind = draw.randrange(6)
        if kind == 0:
            nodes.append(node("MatMul", [a, b], [f"v{i}"]))
        elif kind == 1:
            nodes.append(node("Transpose", [a], [f"v{i}"], perm=[1, 0]))
        elif kind == 2:
            nodes += [node("ReduceSum", [a, "axis"], [f"s{i}"]), node("Sub", [b, f"s{i}"], [f"v{i}"])]
        else:
            nodes.append(node(draw.choice(["Add", "Mul", "Sub", "Max"]), [a, b], [f"v{i}"]))
        names.append(f"v{i}")
    return model(nodes, [value("x", [4, 4]), value("z", [4, 4])], [value(name, [4, 4]) for name in names[-4:]],
                 [ints("axis", 1)])


def butterfly(width: int, depth: int) -> ModelProto:
    """Every value of a level is read twice by the next."""
    names = [f"x{i}" for i in range(width)]
    inputs, nodes = [value(name, [4]) for name in names], []
    for level in range(depth):
        step = 1 << (level % max(1, width.bit_length() - 1))
        after = []
        for i in range(width):
            after.append(f"v{level}_{i}")
            nodes.append(node("Add" if i & step else "Sub", [names[i], names[i ^ step]], [after[-1]]))
        names = after
    return model(nodes, inputs, [value(name, [4]) for name in names])


def unsorted_chain(count: int) -> ModelProto:
    made = chain(count)
    nodes = list(made.graph.node)[::-1]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def long_names(count: int, length: int) -> ModelProto:
    made = chain(count)
    for i, each in enumerate(made.graph.node):
        each.name = f"{i}_" + "n" * length
    return made


def separable_sum(count: int) -> ModelProto:
    """Sums of many terms, of which each may be any of a pattern's."""
    nodes, names = [], []
    for i in range(count):
        nodes.append(node("Mul", [f"x{i % 4}", f"x{(i + 1) % 4}"] if i % 2 else [f"x{i % 4}", "c"], [f"t{i}"]))
        names.append(f"t{i}")
    while len(names) > 1:
        after = []
        for i in range(0, len(names) - 1, 2):
            after.append(f"u{len(nodes)}")
            nodes.append(node("Add", [names[i], names[i + 1]], [after[-1]]))
        names = after + names[len(names) - len(names) % 2:]
    return model(nodes, [value(f"x{i}", [4]) for i in range(4)], [value(names[0], [4])], [floats("c", 4)])


def unrolled_gelus(count: int) -> ModelProto:
    nodes = []
    for i in range(count):
        nodes += [node("Mul", [f"v{i}", "c"], [f"a{i}"]), node("Erf", [f"a{i}"], [f"b{i}"]),
                  node("Add", [f"b{i}", "c"], [f"d{i}"]), node("Mul", [f"v{i}", f"d{i}"], [f"e{i}"]),
                  node("Mul", [f"e{i}", "c"], [f"v{i + 1}"])]
    return model(nodes, [value("v0", [4])], [value(f"v{count}", [4])], [floats("c", 1)])
