# SPDX-License-Identifier: Apache-2.0
"""Exports of ONNX Runtime GenAI's model builder (check_genai.py), and what ONNX Runtime's CPU can run of them."""
import json

import numpy as np
import onnx
from onnx import helper, numpy_helper
from runs import onnx_runtime

SLACK = 3  # rows of windowed caches beyond the window
BFLOAT16 = np.dtype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
CAPACITY = 128  # rows of caches that are buffers


def unpack_experts(proto):
    """Weights of experts in the order of a CUDA kernel, which its own packer tells number by number, by rows."""
    initializers = {t.name: t for t in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type != "QMoE":
            continue
        pairs = [(initializers[node.input[i]], initializers[node.input[i + 1]]) for i in (2, 5)]
        if all(w.dims[1] == s.dims[1] for w, s in pairs):
            continue
        from onnxruntime_genai.models.quantization import cuda_quantizer
        for packed, scales in pairs:
            experts, rows = scales.dims[:2]
            codes = numpy_helper.to_array(packed)
            columns, number = codes[0].size * 2 // rows, np.arange(codes[0].size * 2)
            place = np.zeros_like(number)
            for digit in range(0, 24, 4):
                digits = (number >> digit & 15).astype(np.uint8).reshape(rows, columns)
                by_rows = digits[:, 0::2] | digits[:, 1::2] << 4
                layout = cuda_quantizer._pack_weights_for_cuda_mixed_gemm(by_rows, rows, columns, 4).view(np.uint8)
                place |= np.stack([layout & 15, layout >> 4], 1).reshape(-1).astype(np.int64) << digit
            plain = np.zeros((experts, number.size), np.uint8)
            plain[:, place] = np.stack([codes.reshape(experts, -1) & 15, codes.reshape(experts, -1) >> 4], 2).reshape(experts, -1)
            plain = plain.reshape(experts, rows, columns)
            packed.CopyFrom(numpy_helper.from_array(plain[..., 0::2] | plain[..., 1::2] << 4, packed.name))


class NoPeer(Exception):
    """ONNX Runtime's CPU does not run a model."""


def widen(proto):
    """16-bit floats become float32."""
    narrow = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)

    def tensor(t):
        if t.data_type in narrow:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float32), t.name))
    for value in proto.graph.input:
        if value.type.tensor_type.elem_type in narrow:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT

    def nodes(graph):
        for node in graph.node:
            for a in node.attribute:
                tensor(a.t)
                if a.name in ("to", "dtype") and a.i in narrow:
                    a.i = onnx.TensorProto.FLOAT
                nodes(a.g)
        for t in graph.initializer:
            tensor(t)
        for value in graph.output:
            if value.type.tensor_type.elem_type in narrow:
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    nodes(proto.graph)


def onnxruntime_of(model, path):
    onnx.save(model.for_peer(), path)
    # It would round the inputs of products with DequantizeLinear to 8 bits.
    return onnx_runtime(path, config={"session.qdq_matmulnbits_accuracy_level": "1"})


class Model:
    """An exported graph, and what ONNX Runtime's CPU can run of it."""

    def __init__(self, path, slack=SLACK):
        self.rounds = False  # products of 4 bits, by accuracy_level
        self.path, self.slack = path, slack
        self.proto = onnx.load(path)
        self.inputs = {i.name: i.type.tensor_type for i in self.proto.graph.input}
        self.attention = [n for n in self.proto.graph.node if n.op_type == "GroupQueryAttention"]
        # Caches of SparseAttention are buffers that it writes into.
        self.capacity = max([0] + [t.shape.dim[1].dim_value - 1 for n in self.proto.graph.node if n.op_type == "SparseAttention"
                                   for t in [self.proto_of(n.input[5])]]) and CAPACITY
        config = json.loads(path.with_name("genai_config.json").read_text())
        self.head_size = config["model"]["decoder"]["head_size"]
        self.vocabulary = self.proto.graph.output[0].type.tensor_type.shape.dim[-1].dim_value
        self.dtype = self.dtype_of(next(k for k in self.inputs if k.startswith("past_key")))
        self.wide = False  # the peer computes in float32 what is of 16 bits here

    def proto_of(self, initializer):
        found = next(t for t in self.proto.graph.initializer if t.name == initializer)
        return helper.make_tensor_type_proto(found.data_type, found.dims).tensor_type

    def attributes(self, node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def windows(self):
        """Rows of each windowed cache, by the name of its input."""
        return {name: self.attributes(node)["local_window_size"] + self.slack for node in self.attention
                if self.attributes(node).get("sliding_window_cache") for name in node.input[3:5]}

    def states(self):
        """Of a fixed size: of convolutions and linear attention."""
        return [name for name in self.inputs if name.startswith("past.")]

    def serves(self):
        """Whether `generate` has pages for it."""
        kinds = {node.op_type for node in self.proto.graph.node}
        positions = self.inputs.get("position_ids")
        # Not those of time, height and width, selections of experts as nodes, and sparse attention.
        return bool(self.attention) and not kinds & {"TopK", "SparseAttention"} and (positions is None or len(positions.shape.dim) == 2)

    def batch_axis(self, name):
        """Of a state: windows of states have them behind each other."""
        name = name.replace("present", "past")
        dims = [d.dim_param for d in self.inputs[name].shape.dim]
        return next(i for i, dim in enumerate(dims) if dim in ("batch_size", "batch")) if name in self.states() else 0

    def dtype_of(self, name):
        return helper.tensor_dtype_to_np_dtype(self.inputs[name].elem_type)

    def caches(self, batch):
        """Empty ones."""
        windows, result = self.windows(), {}
        for name, tensor in self.inputs.items():
            if name.startswith("past"):
                sizes = {"batch_size": batch, "batch": batch, "kv_cache_dim": self.head_size}
                # The rest are lengths of caches.
                shape = [d.dim_value or sizes.get(d.dim_param, windows.get(name, self.capacity)) for d in tensor.shape.dim]
                result[name] = np.zeros(shape, self.dtype_of(name))
        return result

    def for_peer(self):
        """Without what asks ONNX Runtime to round products' inputs where we do not, and with norms of heads that its CPU
        lacks as nodes of their own."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        del proto.graph.value_info[:]  # some of these shapes are wrong, and it reuses memory by them
        if self.wide:
            widen(proto)
        unpack_experts(proto)
        nodes, left_out = [], ("qk_norm_epsilon",) if self.rounds else ("accuracy_level", "qk_norm_epsilon")
        for node in proto.graph.node:
            kept = [a for a in node.attribute if a.name not in left_out]
            epsilon = self.attributes(node).get("qk_norm_epsilon", 1e-6)
            del node.attribute[:]
            node.attribute.extend(kept)
            if node.op_type == "GroupQueryAttention" and len(node.input) > 14:
                nodes += self.norms(proto, node, epsilon)
            nodes.append(node)
        copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del proto.graph.node[:]
        proto.graph.node.extend(copies)
        return proto

    def session(self, path):
        """ONNX Runtime's, and what it is given and answers, as this model has it."""
        self.wide = self.dtype == BFLOAT16  # of which its CPU has few operators
        try:
            session = onnxruntime_of(self, path)
        except Exception as error:  # noqa: BLE001: of many kinds
            if self.wide or self.dtype == np.float32 or "NOT_IMPLEMENTED" not in str(error):
                raise NoPeer(str(error).splitlines()[0][:200]) from None
            self.wide = True
            session = onnxruntime_of(self, path)
        names = [o.name for o in session.get_outputs()]

        def run(feeds):
            if self.wide:
                feeds = {k: v.astype(np.float32) if v.dtype in (np.float16, BFLOAT16) else v for k, v in feeds.items()}
            try:
                if self.capacity:
                    return in_place(session, names, feeds)
                return dict(zip(names, session.run(names, feeds)))
            except Exception as error:  # noqa: BLE001
                raise NoPeer(str(error).splitlines()[0][:200]) from None
        return run

    def norms(self, proto, node, epsilon):
        made, attributes = [], self.attributes(node)
        for at, weight, heads in ((0, 14, "num_heads"), (1, 15, "kv_num_heads")):
            name = f"{node.name}/norm{at}"
            shapes = {"split": [0, 0, attributes[heads], -1], "merge": [0, 0, -1]}
            for key, shape in shapes.items():
                proto.graph.initializer.append(numpy_helper.from_array(np.array(shape), f"{name}/{key}"))
            made += [helper.make_node("Reshape", [node.input[at], f"{name}/split"], [f"{name}/x"]),
                     helper.make_node("SimplifiedLayerNormalization", [f"{name}/x", node.input[weight]], [f"{name}/y"],
                                      axis=-1, epsilon=epsilon, stash_type=1),
                     helper.make_node("Reshape", [f"{name}/y", f"{name}/merge"], [f"{name}/z"])]
            node.input[at] = f"{name}/z"
        del node.input[12:]
        return made


def resident(tokens, capacity, window):
    """Tokens that a windowed cache holds (GroupQueryAttention, sliding_window_cache)."""
    step = capacity - window + 1
    return tokens if tokens <= capacity else tokens - step * -(-(tokens - capacity) // step)


def in_place(session, names, feeds):
    """With caches that the outputs share."""
    import onnxruntime
    binding = session.io_binding()
    arrays = {name: np.array(value) for name, value in feeds.items()}  # whose memory the values are
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        cache = values.get(name.replace("present", "past_key_values"))
        if cache is not None:
            binding.bind_ortvalue_output(name, cache)
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return {name: np.array(value.numpy()) for name, value in zip(names, binding.get_outputs())}
