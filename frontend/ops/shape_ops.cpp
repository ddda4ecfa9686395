// SPDX-License-Identifier: Apache-2.0
// Operators that only change or return a shape.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/op_table.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

void identity(NodeContext& node) { node.output(node.x()); }

void dropout(NodeContext& node) {
  if (node.has_input(2) && node.scalar(2, "training_mode") != 0)
    node.unsupported("training_mode is true; only inference is supported");
  const ValueId x = node.x();
  node.output(x);
  if (!node.output_is_used(1)) return;
  // All ones from opset 12 on. Before, the specification leaves the mask open; ONNX Runtime gives
  // zeros, in opset 7 of the type of x.
  const DType type = node.opset() < 10 ? node.dtype(x) : DType::kBool;
  node.output(1, node.expand(node.constant(type, node.opset() < 12 ? 0 : 1), node.shape(x)));
}

void shape(NodeContext& node) {
  const Shape dims = node.shape(node.x());
  const auto rank = std::ssize(dims);
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  std::int64_t start = 0, end = rank;
  if (node.opset() >= 15) {
    start = clamp(node.attr_int("start", 0));
    end = std::max(start, clamp(node.attr_int("end", rank)));
  }
  const Shape part(dims.begin() + start, dims.begin() + end);
  node.output(node.folder().value_of(part));
}

void size(NodeContext& node) {
  node.output(node.folder().scalar_of(ir::element_count(node.shape(node.x()))));
}

void reshape_to(NodeContext& node, Shape to) {
  const ValueId x = node.input(0, "data");
  const Shape from = node.shape(x);
  const bool allow_zero = node.opset() >= 14 && node.attr_int("allowzero", 0) != 0;
  std::optional<std::size_t> inferred;
  Dim known(1);
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == Dim(-1)) {
      if (inferred) node.invalid("shape {} has two -1", to);
      inferred = d;
      continue;
    }
    if (to[d] == Dim(0) && !allow_zero) {
      if (d >= from.size())
        node.invalid("shape {} has a 0 in dimension {}, which input {} does not have", to, d,
                     node.type(x));
      to[d] = from[d];
    }
    if (to[d].is_constant() && to[d].value() < 0)
      node.invalid("shape {} has a negative dimension", to);
    known = known * to[d];
  }
  if (inferred) {
    const Dim total = ir::element_count(from);
    const auto exact = known == Dim(0) ? std::nullopt : ir::divide_exactly(total, known);
    if (!exact) {
      const bool is_certain = known == Dim(0) || (total.is_constant() && known.is_constant());
      const std::string why =
          fmt::format("{} cannot be reshaped to {}: {} elements are not{} a multiple of {}",
                      node.type(x), to, total, is_certain ? "" : " known to be", known);
      if (is_certain) node.invalid(why);
      throw ir::DimMismatch(total, known * ir::floor_div(total, known, node.builder().ranges()),
                            why, ErrorCode::kUnsupported);
    }
    to[*inferred] = *exact;
  }
  node.output(node.reshape(x, to));
}

void reshape(NodeContext& node) { reshape_to(node, node.sizes(1, "shape")); }

void reshape_by_attribute(NodeContext& node) {
  const auto shape = node.attr_ints("shape");
  if (!shape) node.invalid("attribute 'shape' is missing");
  reshape_to(node, {shape->begin(), shape->end()});
}

void flatten(NodeContext& node) {
  const ValueId x = node.x();
  const std::int64_t rank = node.rank(x);
  std::int64_t axis = node.attr_int("axis", 1);
  if (axis < -rank || axis > rank)
    node.invalid("axis {} is out of range for {}", axis, node.type(x));
  if (axis < 0) axis += rank;
  const Shape from = node.shape(x);
  node.output(node.reshape(x, {ir::element_count({from.begin(), from.begin() + axis}),
                               ir::element_count({from.begin() + axis, from.end()})}));
}

std::optional<Ints> read_axes(NodeContext& node) {
  if (node.opset() < 13) return node.attr_ints("axes");
  if (!node.has_input(1)) return std::nullopt;
  return node.ints(1, "axes");
}

void squeeze(NodeContext& node) {
  const ValueId x = node.input(0, "data");
  const Shape from = node.shape(x);
  std::vector<bool> drop(from.size(), false);
  // No axes, or an empty tensor of axes, means all dimensions of size 1.
  if (const auto axes = read_axes(node); axes && !axes->empty()) {
    for (const std::int64_t axis : node.normalise_axes(*axes, node.rank(x))) {
      const Dim& dim = from[static_cast<std::size_t>(axis)];
      if (!dim.is_constant())
        node.unsupported(
            "dimension {} of {} is not known to be 1; only such dimensions can be squeezed", axis,
            node.type(x));
      if (dim != Dim(1))
        node.invalid("dimension {} of {} is {}; only dimensions of 1 can be squeezed", axis,
                     node.type(x), dim);
      drop[static_cast<std::size_t>(axis)] = true;
    }
  } else {
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (!from[d].is_constant())
        node.unsupported(
            "without axes, the rank of its result depends on whether {} is 1; give axes", from[d]);
      drop[d] = from[d] == Dim(1);
    }
  }
  Shape to;
  for (std::size_t d = 0; d < from.size(); ++d)
    if (!drop[d]) to.push_back(from[d]);
  node.output(node.reshape(x, to));
}

void unsqueeze(NodeContext& node) {
  const ValueId x = node.input(0, "data");
  const auto given = read_axes(node);
  if (!given) node.invalid("axes are missing");
  const auto rank = node.rank(x) + static_cast<std::int64_t>(given->size());
  const auto axes = node.normalise_axes(*given, rank);
  Shape to = node.shape(x);
  for (const std::int64_t axis : axes) to.insert(to.begin() + axis, Dim(1));
  node.output(node.reshape(x, to));
}

/// A dimension of 1 at `axis` of the result.
void expand_dims(NodeContext& node) {
  const ValueId x = node.input(0, "X");
  const Ints axis = node.ints(1, "axis");
  if (axis.size() != 1) node.invalid("axis has {} elements, not one", axis.size());
  Shape to = node.shape(x);
  to.insert(to.begin() + node.normalise_axis(axis[0], node.rank(x) + 1), Dim(1));
  node.output(node.reshape(x, to));
}

void transpose(NodeContext& node) {
  const ValueId x = node.input(0, "data");
  Ints reversed(node.shape(x).size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  auto perm = node.attr_ints("perm").value_or(reversed);
  auto sorted = perm;
  std::ranges::sort(sorted);
  if (!std::equal(sorted.begin(), sorted.end(), reversed.rbegin(), reversed.rend()))
    node.invalid("perm [{}] is not a permutation of the {} dimensions of {}", fmt::join(perm, ", "),
                 node.rank(x), node.type(x));
  node.output(node.transpose(x, std::move(perm)));
}

/// Exporters' masks go from [queries] to [past + queries], which is broadcasting only for one query
/// or an empty past. Repeating the first element at the front is correct for both, and for other
/// sizes gives the causal mask that is meant. So one plan handles prompts and single tokens.
ValueId lead_in(NodeContext& node, ValueId x, const std::vector<Dim>& wanted) {
  const ir::Ranges& ranges = node.builder().ranges();
  const auto rank = node.rank(x), shift = std::ssize(wanted) - rank;
  for (std::int64_t d = std::max<std::int64_t>(0, -shift); d < rank; ++d) {
    const Dim own = node.shape(x)[static_cast<std::size_t>(d)],
              more = wanted[static_cast<std::size_t>(d + shift)] - own;
    const auto least = ir::lower_bound(more, ranges), fewest = ir::lower_bound(own, ranges);
    if (own.is_constant() || more.is_constant() || least != 0 || fewest != 1) continue;
    Shape first = node.shape(x);
    first[static_cast<std::size_t>(d)] = more;
    x = node.concat({node.expand(part(node, x, d, 0, 1), first), x}, d);
  }
  return x;
}

void expand(NodeContext& node) {
  const auto wanted = node.sizes(1, "shape");
  const ValueId x = lead_in(node, node.x(), wanted);
  // The shape may have 1 where the input is larger: broadcasting is mutual.
  node.output(node.expand(x, ir::broadcast(node.shape(x), wanted)));
}

/// [a, b] repeated [r, s] times: [1, a, 1, b] -> [r, a, s, b] -> [r*a, s*b].
void tile(NodeContext& node) {
  const ValueId x = node.x();
  const Shape from = node.shape(x);
  const auto repeats = node.sizes(1, "repeats");
  if (repeats.size() != from.size())
    node.invalid("{} repeats are given for {}", repeats.size(), node.type(x));
  Shape apart, repeated, result;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (repeats[d].is_constant() && repeats[d].value() < 0)
      node.invalid("repeat {} of dimension {} is negative", repeats[d].value(), d);
    if (repeats[d] != Dim(1)) {
      apart.emplace_back(1);
      repeated.push_back(repeats[d]);
    }
    apart.push_back(from[d]);
    repeated.push_back(from[d]);
    result.push_back(from[d] * repeats[d]);
  }
  node.output(node.reshape(node.expand(node.reshape(x, apart), repeated), result));
}

Dim divide_by_block(NodeContext& node, const Dim& dim, std::int64_t block) {
  const auto quotient = ir::divide_exactly(dim, Dim(block));
  if (!quotient) node.invalid("{} is not a multiple of blocks of {}", dim, block);
  return *quotient;
}

std::int64_t read_block(NodeContext& node) {
  const ValueId x = node.x();
  if (node.rank(x) != 4) node.invalid("input must be [N, C, H, W], but is {}", node.type(x));
  const std::int64_t block = node.attr_int("blocksize");
  if (block < 1 || block > 1 << 15) node.invalid("attribute 'blocksize' is {}", block);
  return block;
}

/// The outer factor of the depth: the position in a block (DCR), or the channel (CRD).
std::string read_block_mode(NodeContext& node) {
  std::string mode = node.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    node.invalid("attribute 'mode' must be DCR or CRD, but is '" + mode + "'");
  return mode;
}

void depth_to_space(NodeContext& node) {
  const std::int64_t b = read_block(node);
  const ValueId x = node.x();
  const Shape s = node.shape(x);
  const std::string mode = read_block_mode(node);
  const Dim depth = divide_by_block(node, s[1], b * b);
  const ValueId blocks =
      mode == "DCR"
          ? node.transpose(node.reshape(x, {s[0], b, b, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
          : node.transpose(node.reshape(x, {s[0], depth, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  node.output(node.reshape(blocks, {s[0], depth, s[2] * b, s[3] * b}));
}

void space_to_depth(NodeContext& node) {
  const std::int64_t b = read_block(node);
  const ValueId x = node.x();
  const Shape s = node.shape(x);
  const Dim h = divide_by_block(node, s[2], b), w = divide_by_block(node, s[3], b);
  const std::string mode = read_block_mode(node);
  const ValueId split = node.reshape(x, {s[0], s[1], h, b, w, b});
  const ValueId blocks = mode == "DCR" ? node.transpose(split, {0, 3, 5, 1, 2, 4})
                                       : node.transpose(split, {0, 1, 3, 5, 2, 4});
  node.output(node.reshape(blocks, {s[0], s[1] * (b * b), h, w}));
}

}  // namespace

const OpRows kShapeOps = {
    {"Identity", 1, identity, "", "", Types::kAny, FourBits::kKeeps},
    {"Dropout", 7, dropout, "ratio:-11 seed:12-"},
    {"Shape", 1, shape, "end:15- start:15-"},
    {"Size", 1, size},
    {"Reshape", 1, reshape_by_attribute, "consumed_inputs shape", "", Types::kAny,
     FourBits::kKeeps},
    {"Reshape", 5, reshape, "allowzero:14-", "", Types::kAny, FourBits::kKeeps},
    {"Flatten", 1, flatten, "axis", "", Types::kAny, FourBits::kKeeps},
    {"Squeeze", 1, squeeze, "axes:-12", "", Types::kAny, FourBits::kKeeps},
    {"Unsqueeze", 1, unsqueeze, "axes:-12", "", Types::kAny, FourBits::kKeeps},
    {"ExpandDims", 1, expand_dims, "", kMicrosoft},
    {"Transpose", 1, transpose, "perm", "", Types::kAny, FourBits::kKeeps},
    {"Expand", 8, expand},
    {"Tile", 6, tile},
    {"DepthToSpace", 1, depth_to_space, "blocksize mode:11-"},
    {"SpaceToDepth", 1, space_to_depth, "blocksize mode:28-"},
};

}  // namespace sinter::frontend
