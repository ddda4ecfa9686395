// SPDX-License-Identifier: Apache-2.0
// Sizes that only the run knows.
//
// Extent(count) {symbol} -> count
//
// The number in `count` is the value of `symbol` in the types and attributes of other nodes;
// GraphBuilder places them after this one (Node::extents). The symbol's range in the graph bounds
// it; its maximum may be symbolic. If it is one number, the node is a check, which lives without a
// reader: a run in which the size is another fails.
//
// TokenCount(mask [batch, sequence]) {symbol} -> count
//
// Like Extent, for an input mask of 0 and 1: the number of ones, rounded up (packed_rows). The code
// that binds the inputs computes it: `symbol` is no size from data, just as an input's dimension is
// none. Other values in the mask are refused; with "first", so are rows that do not begin with 1.
#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/packed_rows.h>

#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_extent(const Attrs& attrs, Types inputs) {
  if (inputs[0] != TensorType{DType::kInt64, {}})
    invalid("a size must be i64[], found " + to_string(inputs[0]));
  if (attrs.get_string("symbol").empty()) invalid("the size has no name");
  return {inputs[0]};
}

std::vector<TensorType> infer_token_count(const Attrs& attrs, Types inputs) {
  if (inputs[0].shape.size() != 2)
    invalid("the mask must be [batch, sequence], found " + to_string(inputs[0]));
  if (attrs.get_string("symbol").empty()) invalid("the size has no name");
  return {{DType::kInt64, {}}};
}

std::vector<Tensor> count_tokens(const Attrs& attrs, Tensors inputs, Types) {
  const std::vector<double> mask = inputs[0].to_doubles();
  const auto length = static_cast<std::size_t>(inputs[0].shape()[1]);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0 && mask[i] != 1)
      throw Error(ErrorCode::kUsage, fmt::format("element [{}, {}] of the mask is {}, not 0 or 1",
                                                 i / length, i % length, mask[i]));
    if (attrs.get_int("first") != 0 && i % length == 0 && mask[i] != 1)
      throw Error(ErrorCode::kUsage,
                  fmt::format("sequence {} has no token at its first position", i / length));
    tokens += mask[i] == 1 ? 1 : 0;
  }
  const std::int64_t rows[] = {packed_rows(tokens, static_cast<std::int64_t>(mask.size()))};
  return {Tensor::from_ints(DType::kInt64, {}, rows)};
}

}  // namespace

std::vector<OpDef> extent_ops() {
  OpDef extent;
  extent.name = "Extent";
  extent.kind = OpKind::kExtent;
  extent.attrs = {{"symbol", AttrKind::kString, std::nullopt}};
  extent.infer = infer_extent;
  extent.evaluate = [](const Attrs&, Tensors inputs, Types) {
    return std::vector<Tensor>{inputs[0]};
  };

  OpDef tokens;
  tokens.name = "TokenCount";
  tokens.kind = OpKind::kExtent;
  tokens.attrs = {{"symbol", AttrKind::kString, std::nullopt},
                  {"first", AttrKind::kInt, Attr(std::int64_t{0})}};
  tokens.infer = infer_token_count;
  tokens.evaluate = count_tokens;
  return {extent, tokens};
}

}  // namespace sinter::ir::ops
