// SPDX-License-Identifier: Apache-2.0
// SparseAttention of com.microsoft: grouped queries that see blocks of keys. Source:
// ContribOperators.md of ONNX Runtime 1.3x.
#include <algorithm>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/microsoft/group_query.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// Inputs by index.
struct Sparse {
  static constexpr std::size_t kPastKey = 3, kRows = 5, kColumns = 6, kTotal = 7, kLengths = 8,
                               kCos = 9;
};

/// Which blocks of keys each block of queries sees, bool [heads, blocks, blocks], from the rows'
/// bounds and the columns of its layouts.
ValueId seen_blocks(NodeContext& node, std::int64_t heads) {
  const Shape rows = node.shape(node.input(Sparse::kRows, "block_row_indices")),
              columns = node.shape(node.input(Sparse::kColumns, "block_col_indices"));
  if (rows.size() != 2 || columns.size() != 2 || rows[0] != columns[0] || !rows[0].is_constant() ||
      !rows[1].is_constant() || !columns[1].is_constant() || rows[1].value() < 2 ||
      rows[0].value() < 1)
    node.invalid(
        "block_row_indices must be [layouts, blocks + 1] and block_col_indices [layouts, "
        "most blocks], both of known sizes");
  const std::int64_t layouts = rows[0].value(), blocks = rows[1].value() - 1,
                     most = columns[1].value();
  if (heads % layouts != 0)
    node.invalid("{} layouts of blocks do not divide {} heads", layouts, heads);
  node.take_memory(heads * blocks * blocks, "its block mask");
  const auto indices = [&](std::size_t i, const char* name) {
    const ir::Tensor* known = node.builder().constant_of(node.input(i, name));
    if (known == nullptr) node.unsupported("{} must be constant", name);
    return known->to_ints();
  };
  const Ints bounds = indices(Sparse::kRows, "block_row_indices"),
             found = indices(Sparse::kColumns, "block_col_indices");
  Ints seen(static_cast<std::size_t>(heads * blocks * blocks), 0);
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < blocks; ++row) {
      const std::int64_t layout = head % layouts;
      const auto bound = [&](std::int64_t i) {
        return bounds[static_cast<std::size_t>(layout * (blocks + 1) + i)];
      };
      if (bound(row) < 0 || bound(row + 1) < bound(row) || bound(row + 1) > most)
        node.invalid("block_row_indices bound row {} by {} and {} of {} columns", row, bound(row),
                     bound(row + 1), most);
      for (std::int64_t i = bound(row); i < bound(row + 1); ++i) {
        const std::int64_t column = found[static_cast<std::size_t>(layout * most + i)];
        if (column < 0 || column >= blocks)
          node.invalid("block_col_indices have {}, but there are {} blocks", column, blocks);
        seen[static_cast<std::size_t>((head * blocks + row) * blocks + column)] = 1;
      }
    }
  return node.builder().constant(
      ir::Tensor::from_ints(DType::kBool, {heads, blocks, blocks}, seen));
}

/// Of any block size; kernels of ONNX Runtime take 16, 32, 64 and 128.
void sparse_attention(NodeContext& node) {
  AttentionForm form;
  read_grouped_heads(node, form);
  const Shape queries = node.shape(form.q);
  const std::int64_t size = node.attr_int("sparse_block_size"), heads = node.attr_int("num_heads");
  if (size < 1) node.invalid("attribute 'sparse_block_size' is {}; it must be positive", size);
  form.scale = read_scale(node, form.q);
  const Term after(node, node.input(Sparse::kLengths, "key_total_sequence_lengths"));
  check_shape(node, after.value(), "key_total_sequence_lengths", {queries[0]});
  const Lengths lengths = lengths_after(node, after, queries[0], queries[2]);
  const Term places = places_of(node, lengths, queries[2]);
  turn_heads(node, form, Sparse::kCos, places.value());
  attend_to_all(node, form, lengths, places, {Sparse::kPastKey, Sparse::kTotal, Sparse::kCos},
                false);
  // The mask of blocks, for the places of queries and keys.
  const Term blocks(node, seen_blocks(node, heads));
  const std::int64_t count = blocks.shape()[1].value();
  const Dim keys = node.shape(form.k)[2];
  node.limit(keys, count * size);
  const double last = static_cast<double>(count - 1), width = static_cast<double>(size);
  const auto block_of = [&](const Term& place) {
    return clamp(place / width, 0, place.number(last));
  };
  const Term row = block_of(places.reshape({queries[0], 1, queries[2], 1})),
             column = block_of(iota(node, keys, 3, 4));
  form.masks.push_back(take(blocks, {iota(node, Dim(heads), 1, 4), row, column}).value());
  node.output(0, merge_heads(node, attend(node, form).y));
  node.output(1, form.k);
  node.output(2, form.v);
}

}  // namespace

const OpRows kMicrosoftSparseAttentionOps = {
    {"SparseAttention", 1, sparse_attention,
     "do_rotary kv_num_heads num_heads rotary_interleaved scale sparse_block_size", kMicrosoft},
};

}  // namespace sinter::frontend
