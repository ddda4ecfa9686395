# SPDX-License-Identifier: Apache-2.0
"""Writing ONNX graphs node by node."""
import numpy as np
from onnx import helper, numpy_helper


class Writer:
    """Collects nodes and initialisers; every method adds a node and returns its output's name."""

    def __init__(self, opset):
        self.opset = opset
        self.nodes, self.initializers, self.names = [], [], set()
        self.scope = ""

    def constant(self, name, array):
        if name not in self.names:
            self.names.add(name)
            self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def packed(self, name, kind, shape, data):
        """A constant whose type NumPy does not have, from ONNX's raw bytes."""
        if name not in self.names:
            self.names.add(name)
            self.initializers.append(helper.make_tensor(name, kind, shape, data, raw=True))
        return name

    def scalar(self, value, dtype=np.float32):
        return self.constant(f"const_{dtype.__name__}_{value}", np.array(value, dtype))

    def ints(self, *values):
        return self.constant("const_" + "_".join(map(str, values)), np.array(values, np.int64))

    def op(self, kind, *inputs, output=None, **attributes):
        """`output`: its name, where it is one of the graph's."""
        base = f"{self.scope}{kind}"
        name, n = base, 1
        while name in self.names:
            name, n = f"{base}_{n}", n + 1
        self.names.add(name)
        output = output or name + "_output"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output
