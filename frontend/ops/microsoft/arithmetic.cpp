// SPDX-License-Identifier: Apache-2.0
// Small operators of com.microsoft that are arithmetic. Source: ContribOperators.md and the schemas
// of ONNX Runtime 1.31.
#include <algorithm>

#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

Term turned(const Term& x) { return {x.node(), x.node().transpose(x.value(), {1, 0})}; }

/// Distances of the rows of A [n, k] and B [m, k]: [n, m]. As a matmul, as ONNX Runtime computes
/// it: |a - b|^2 = |a|^2 - 2 a b + |b|^2.
void cdist(NodeContext& node) {
  const Term a(node, node.input(0, "A")), b(node, node.input(1, "B"));
  const Shape left = a.shape(), right = b.shape();
  if (left.size() != 2 || right.size() != 2)
    node.invalid("A and B must be matrices, but are {} and {}", node.type(a.value()),
                 node.type(b.value()));
  check_shape(node, b.value(), "B", {right[0], left[1]});
  const std::string metric = node.attr_string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    node.invalid("attribute 'metric' must be sqeuclidean or euclidean, but is '" + metric + "'");
  const Term of_a = reduce("ReduceSum", a.apply("Square"), 1, true);
  const Term of_b = reduce("ReduceSum", b.apply("Square"), 1).reshape({Dim(1), right[0]});
  const Term product(node, node.add("MatMul", {a.value(), turned(b).value()}));
  const Term square = (of_a - product * 2.0 + of_b).with("Max", 0);
  node.output((metric == "euclidean" ? square.apply("Sqrt") : square).value());
}

/// int16 or uint16 matrices; the product is int32 or, of two unsigned ones, uint32.
void matmul_integer16(NodeContext& node) {
  const ValueId a = node.input(0, "A"), b = node.input(1, "B");
  for (const auto& [value, what] : {std::pair{a, "A"}, std::pair{b, "B"}})
    check_dtype(node, value, what, {DType::kInt16, DType::kUInt16});
  const bool is_signed = node.dtype(a) == DType::kInt16 || node.dtype(b) == DType::kInt16;
  const DType sum = is_signed ? DType::kInt32 : DType::kUInt32;
  node.output(node.add("MatMul", {node.cast(a, sum), node.cast(b, sum)}));
}

/// z = scale * x, z * sigmoid(z).
void scaled_silu(NodeContext& node) {
  const Term x(node, node.x());
  const Term scaled = node.has_input(1)
                          ? x * Term(node, node.input(1, "scale")).reshape({}).cast(x.dtype())
                          : x * node.attr_float("alpha", 1);
  node.output(scaled.apply("Silu").value());
}

/// The hash of strings: hosts compute it, and the input is the hash.
void murmur_hash(NodeContext& node) {
  const TextPtr text = node.text(0);
  if (!text)
    node.unsupported(
        "it hashes numbers: only strings of an input of the model are hashed, before it runs");
  const bool positive = node.attr_int("positive", 1) != 0;
  const auto seed = static_cast<std::uint32_t>(node.attr_value("seed", 0));
  const ValueId x = node.x();
  if (text->code != BindingText::Code::kMurmur3 || text->hash_seed != seed ||
      node.dtype(x) != (positive ? DType::kUInt32 : DType::kInt32))
    node.unsupported(
        "its strings are also compared, or hashed otherwise: an input of strings is either");
  node.output(x);
}

void sample_op(NodeContext& node) { node.output(node.x()); }

/// softmax(data + bias) over the dimensions from `axis` on.
void bias_softmax(NodeContext& node) {
  const ValueId x = node.input(0, "data");
  const Shape shape = node.shape(x);
  const Shape bias = node.shape(node.input(1, "bias"));
  const auto axis = static_cast<std::size_t>(
      node.normalise_axis(node.attr_int("axis", 1), static_cast<std::int64_t>(shape.size())));
  // The bias leaves out dimensions in front of the axis: the inner ones, or the outer ones.
  Shape spread = bias;
  if (bias.size() != shape.size()) {
    if (bias.size() > shape.size())
      node.invalid("bias {} has more dimensions than {}", bias, shape);
    const std::size_t missing = shape.size() - bias.size();
    const bool inner = node.attr_int("is_inner_broadcast") != 0;
    const std::size_t at = inner && axis >= missing ? axis - missing : 0;
    spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(at), missing, Dim(1));
  }
  const ValueId sum = node.add("Add", {x, node.reshape(node.input(1, "bias"), spread)});
  if (node.shape(sum) != shape)
    node.invalid("bias {} does not broadcast to {}", node.type(node.input(1, "bias")), shape);
  const auto split = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const Shape flat{ir::element_count({shape.begin(), split}),
                   ir::element_count({split, shape.end()})};
  node.output(node.reshape(
      node.add("Softmax", {node.reshape(sum, flat)}, {{"axis", std::int64_t{1}}}), shape));
}

/// Whether no element of the inputs is an infinity (or NaN): a scalar.
void is_all_finite(NodeContext& node) {
  const bool only_nan = node.attr_int("isnan_only", 0) != 0,
             only_inf = node.attr_int("isinf_only", 0) != 0;
  if (only_nan && only_inf) node.invalid("isnan_only and isinf_only are both 1");
  std::optional<Term> any;
  for (const ValueId input : node.all_inputs()) {
    const Term x = Term(node, input).reshape({ir::element_count(node.shape(input))});
    const Term bad = only_nan   ? x.apply("IsNan")
                     : only_inf ? x.apply("IsInf")
                                : x.apply("IsNan").with("Or", x.apply("IsInf"));
    const Term count = reduce("ReduceMax", bad.cast(DType::kInt32), 0);
    any = any ? any->with("Max", count) : count;
  }
  node.output(any->with("Equal", 0).value());
}

/// Integers, summed in 32 bits.
void reduce_sum_integer(NodeContext& node) {
  const ValueId x =
      node.cast(node.x(), is_signed_integer(node.dtype(node.x())) ? DType::kInt32 : DType::kUInt32);
  const Ints axes = node.normalise_axes(node.attr_ints("axes").value_or(Ints()), node.rank(x));
  node.output(
      node.add("ReduceSum", {x}, {{"axes", axes}, {"keepdims", node.attr_int("keepdims", 1)}}));
}

/// Slices of `size` elements along `dim`, one each `step`, in a new last dimension.
void unfold_tensor(NodeContext& node) {
  const Term x(node, node.input(0, "input"));
  const Shape shape = x.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto dim = static_cast<std::size_t>(node.normalise_axis(node.attr_int("dim", -1), rank));
  const std::int64_t size = node.attr_int("size"), step = node.attr_int("step", 1);
  if (size < 1 || step < 1) node.invalid("size {} and step {} must be at least 1", size, step);
  node.at_least(shape[dim], size);
  const Dim count =
      ir::floor_div(shape[dim] - Dim(size), Dim(step), node.builder().ranges()) + Dim(1);
  const Term places = iota(node, count, 0, 2) * static_cast<double>(step) + iota(node, size, 1, 2);
  // [.., count, size, ..] with `size` moved to the end.
  const ValueId slices =
      node.add("Gather", {x.value(), places.value()}, {{"axis", static_cast<std::int64_t>(dim)}});
  Ints perm;
  for (std::int64_t d = 0; d <= rank; ++d)
    if (d != static_cast<std::int64_t>(dim) + 1) perm.push_back(d);
  perm.push_back(static_cast<std::int64_t>(dim) + 1);
  node.output(node.transpose(slices, perm));
}

// ---- Branches: layers with several residual streams (hyper-connections)

/// X as [.., branches, features]: its own shape, or split into `num_branches`.
Term in_branches(NodeContext& node, std::size_t i, const char* what) {
  const Term x(node, node.input(i, what));
  const std::int64_t count = node.attr_int("num_branches", 0);
  Shape shape = x.shape();
  if (count == 0) {
    if (shape.size() < 2) node.invalid("{} has no branches: it is {}", what, node.type(x.value()));
    return x;
  }
  const auto each = shape.empty() ? std::nullopt : ir::divide_exactly(shape.back(), Dim(count));
  if (!each) node.invalid("{} {} is not made of {} branches", what, node.type(x.value()), count);
  shape.back() = Dim(count);
  shape.push_back(*each);
  return x.reshape(shape);
}

/// Gates (.., C), (.., C, 1), (.., C, H) or (.., C * H) of streams [.., C, H], broadcasting.
Term gates_of(const Term& streams, const Term& gates) {
  const Shape shape = streams.shape(), own = gates.shape();
  if (own.size() == shape.size()) return gates;
  Shape spread(shape.begin(), shape.end() - 1);
  if (own.size() + 1 != shape.size())
    streams.node().invalid("gates {} do not fit streams {}", own, shape);
  const bool is_flat = own.back() != spread.back();
  spread.push_back(is_flat ? shape.back() : Dim(1));
  return gates.reshape(spread);
}

void branchwise_rms_norm(NodeContext& node) {
  const Term x = in_branches(node, 0, "X");
  const Shape shape = x.shape();
  const std::int64_t axis = std::ssize(shape) - 1;
  const Term wide = x.cast(DType::kFloat32);
  Term y(node, node.add("RmsNorm", {wide.value(), node.constant(DType::kFloat32, 1)},
                        {{"axis", axis}, {"epsilon", node.attr_float("epsilon", 1e-5f)}}));
  if (node.has_input(1)) {
    Term scale = Term(node, node.input(1, "scale")).cast(DType::kFloat32);
    if (scale.shape().size() == 1 && scale.shape()[0] != shape.back())
      scale = scale.reshape({shape[shape.size() - 2], shape.back()});
    y = y * scale;
  }
  node.output(y.cast(x.dtype()).reshape(node.shape(node.input(0, "X"))).value());
}

/// reduction_scale * sum over branches of streams * pre_mix.
void hyper_connection_pre_mix(NodeContext& node) {
  const Term x = in_branches(node, 0, "streams").cast(DType::kFloat32);
  const Term gates = gates_of(x, Term(node, node.input(1, "pre_mix")).cast(DType::kFloat32));
  const Term sum = reduce("ReduceSum", x * gates, x.shape().size() - 2);
  const DType type = node.dtype(node.input(0, "streams"));
  node.output((sum * node.attr_float("reduction_scale", 1)).cast(type).value());
}

/// Branch k: sum over c of stream_mix[c, k] * streams[c], plus post_mix[k] * block_output.
void hyper_connection_post_mix(NodeContext& node) {
  const Term x = in_branches(node, 0, "streams").cast(DType::kFloat32);
  const Term gates = gates_of(x, Term(node, node.input(2, "post_mix")).cast(DType::kFloat32));
  Term block = Term(node, node.input(1, "block_output")).cast(DType::kFloat32);
  Shape one = block.shape();
  one.insert(one.end() - 1, Dim(1));
  block = block.reshape(one);
  Term mixed = x;
  if (node.has_input(3)) {
    const Term mix = Term(node, node.input(3, "stream_mix")).cast(DType::kFloat32);
    Ints perm;
    for (std::int64_t d = 0; d < std::ssize(mix.shape()); ++d) perm.push_back(d);
    std::swap(perm.back(), perm[perm.size() - 2]);
    mixed = Term(node, node.add("MatMul", {node.transpose(mix.value(), perm), x.value()}));
  }
  const ValueId streams = node.input(0, "streams");
  node.output(
      (mixed + gates * block).cast(node.dtype(streams)).reshape(node.shape(streams)).value());
}

/// sigmoid(sign(d) sqrt(max(|d|, 1e-6))) * value for d the scaled product of normalised keys and
/// queries.
void engram_gate(NodeContext& node) {
  const DType type = node.dtype(node.input(0, "key"));
  const auto wide = [&](std::size_t i, const char* what) {
    return Term(node, node.input(i, what)).cast(DType::kFloat32);
  };
  const Term key = wide(0, "key"), query = wide(1, "query");
  const Shape shape = key.shape();
  if (shape.size() != 4) node.invalid("key must be [batch, length, branches, size]");
  const auto normal = [&](const Term& x, const Term& scale) {
    const ValueId ones = node.constant(DType::kFloat32, 1);
    return Term(node, node.add("RmsNorm", {x.value(), ones},
                               {{"axis", std::int64_t{3}},
                                {"epsilon", node.attr_float("epsilon", 1e-5f)}})) *
           scale;
  };
  const Term dot =
      reduce("ReduceSum",
             normal(key, wide(3, "key_norm_scale")) * normal(query, wide(4, "query_norm_scale")), 3,
             true) /
      size_of_dim(node, shape[3], DType::kFloat32).apply("Sqrt");
  const Term root = abs(dot).with("Max", 1e-6).apply("Sqrt");
  const Term gate = (dot.apply("Sign") * root).apply("Sigmoid");
  const Term value = wide(2, "value").reshape({shape[0], shape[1], Dim(1), shape[3]});
  const Term gated = gate * value;
  node.output(0, gated.cast(type).value());
  if (node.output_is_used(1))
    node.output(1, normal(gated, wide(5, "conv_norm_scale")).cast(type).value());
}

}  // namespace

const OpRows kMicrosoftArithmeticOps = {
    {"CDist", 1, cdist, "metric", kMicrosoft},
    {"MatMulInteger16", 1, matmul_integer16, "", kMicrosoft, Types::kIntegers},
    {"ScaledSiLU", 1, scaled_silu, "alpha", kMicrosoft},
    {"MurmurHash3", 1, murmur_hash, "positive seed", kMicrosoft, Types::kAny},
    {"SampleOp", 1, sample_op, "", kMicrosoft, Types::kAny},
    {"BiasSoftmax", 1, bias_softmax, "axis is_inner_broadcast", kMicrosoft},
    {"IsAllFinite", 1, is_all_finite, "isinf_only isnan_only", kMicrosoft},
    {"ReduceSumInteger", 1, reduce_sum_integer, "axes keepdims", kMicrosoft, Types::kIntegers},
    {"UnfoldTensor", 1, unfold_tensor, "dim size step", kMicrosoft, Types::kAny},
    {"BranchwiseRMSNorm", 1, branchwise_rms_norm, "epsilon num_branches", kMicrosoft},
    {"HyperConnectionPreMix", 1, hyper_connection_pre_mix, "num_branches reduction_scale",
     kMicrosoft},
    {"HyperConnectionPostMix", 1, hyper_connection_post_mix, "num_branches", kMicrosoft},
    {"EngramGate", 1, engram_gate, "epsilon", kMicrosoft},
};

}  // namespace sinter::frontend
