// SPDX-License-Identifier: Apache-2.0
// Graphs of recurrences over tokens as PyTorch code spells them, and whether they are found.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fusion/passes/passes.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {

using ir::GraphBuilder;
using ir::Ints;
using ir::Shape;
using ir::Tensor;
using ir::ValueId;

inline constexpr DType kF32 = DType::kFloat32;
inline constexpr std::int64_t kBatch = 2, kHeads = 4, kKeys = 3, kValues = 5;

/// PyTorch's vocabulary over a GraphBuilder.
struct Torch {
  GraphBuilder b;

  ValueId input(const char* name, const Ints& shape) {
    return b.input(name, {kF32, Shape(shape.begin(), shape.end())});
  }
  Ints shape(ValueId x) const {
    Ints result;
    for (const ir::Dim& dim : b.type(x).shape) result.push_back(dim.value());
    return result;
  }
  ValueId view(ValueId x, const Ints& shape) {
    return b.add("Reshape", {x}, {{"shape", Shape(shape.begin(), shape.end())}});
  }
  ValueId permute(ValueId x, Ints perm) {
    return b.add("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  ValueId swap(ValueId x) {  // the last two dimensions
    Ints perm(b.type(x).shape.size());
    for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return permute(x, perm);
  }
  ValueId unsqueeze(ValueId x, std::int64_t axis) {
    Ints dims = shape(x);
    dims.insert(dims.begin() + axis, 1);
    return view(x, dims);
  }
  ValueId expand(ValueId x, const Ints& shape) {
    return b.add("Expand", {x}, {{"shape", Shape(shape.begin(), shape.end())}});
  }
  ValueId op(const char* name, ValueId x, ValueId y) { return b.add(name, {x, y}); }
  ValueId mul(ValueId x, ValueId y) { return op("Mul", x, y); }
  ValueId exp(ValueId x) { return b.add("Exp", {x}); }
  ValueId sum(ValueId x, std::int64_t axis) {
    return b.add("ReduceSum", {x}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{0}}});
  }
  ValueId cumsum(ValueId x, std::int64_t axis) {
    return b.add("Scan", {x}, {{"axis", axis}, {"combine", std::string("sum")}});
  }
  ValueId pick(ValueId x, std::int64_t axis, std::int64_t at) {
    return b.add("Gather", {x, b.constant(Tensor::from_ints(DType::kInt64, {}, {{at}}))},
                 {{"axis", axis}});
  }
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
    Ints dims = shape(x);
    const std::size_t rank = dims.size();
    dims[static_cast<std::size_t>(axis)] = end - begin;
    std::vector<ir::Dim> starts(rank, ir::Dim(0));
    starts[static_cast<std::size_t>(axis)] = begin;
    return b.add(
        "Slice", {x},
        {{"starts", starts}, {"steps", Ints(rank, 1)}, {"shape", Shape(dims.begin(), dims.end())}});
  }
  ValueId zeros(const Ints& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return b.constant(
        Tensor::from_doubles(kF32, shape, std::vector<double>(static_cast<std::size_t>(count))));
  }
  /// x where row >= column + k of the last two of `rank` dimensions, else `other`.
  ValueId lower_of(ValueId x, std::size_t rank, std::int64_t k, double other) {
    const Ints dims = shape(x);
    const std::int64_t n = dims[rank - 1];
    std::vector<std::uint8_t> mask;
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t c = 0; c < n; ++c) mask.push_back(r < c + k);
    Ints sizes{n, n};
    sizes.resize(2 + dims.size() - rank, 1);
    return b.add("Where",
                 {b.constant(Tensor::of(DType::kBool, sizes, mask)), b.scalar(kF32, other), x});
  }
  ValueId lower(ValueId x, std::int64_t k, double other) {
    return lower_of(x, shape(x).size(), k, other);
  }
};

/// The graph with its recurrences, which compute the same.
ir::Graph expect_found(const ir::Graph& graph, const std::string& rule, int count = 1);
/// Both compute the same from random inputs.
void expect_equal(const ir::Graph& graph, const ir::Graph& found);
/// Of a target with kernels for all rules.
Context context_of_target();
void expect_refused(const ir::Graph& graph, const std::string& why,
                    Context context = context_of_target());
int count_of(const ir::Graph& graph, std::string_view op);

}  // namespace sinter::fusion
