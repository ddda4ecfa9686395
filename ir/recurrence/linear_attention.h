// SPDX-License-Identifier: Apache-2.0
// What a LinearAttention computes, from its attributes and types:
// ir/ops/recurrent/linear_attention.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/attributes.h"
#include "ir/op_def.h"

namespace sinter::ir {

enum class UpdateRule : std::uint8_t { kLinear, kDelta, kGeneralDelta };
/// "linear", "delta", "general_delta".
std::string_view to_string(UpdateRule rule);

/// Inputs behind query, key and value.
struct LinearAttentionInputs {
  std::optional<std::size_t> decay, beta, erase, state;
  std::optional<std::size_t> starts, sources, slots;  // of a ragged batch
  std::size_t count = 3;                              // of all inputs
};
/// By the attributes "rule", "decay", "state" and "ragged". Throws Error(kInvalidModel) for unknown
/// values.
LinearAttentionInputs linear_attention_inputs(const Attrs& attrs);

struct LinearAttention {
  UpdateRule rule = UpdateRule::kLinear;
  double scale = 1;
  LinearAttentionInputs inputs;
  bool by_channel = false;  // the decay is [batch, length, heads, key_size]
  bool is_ragged() const { return inputs.starts.has_value(); }
  Dim batch, length, key_size, value_size;
  Dim sequences;  // batch, or those of a ragged batch
  Dim states;     // in memory: sequences, or the slots of a ragged batch
  std::int64_t query_heads = 1, key_heads = 1, value_heads = 1;

  /// States.
  std::int64_t heads() const { return key_heads > value_heads ? key_heads : value_heads; }
  std::int64_t out_heads() const { return query_heads > heads() ? query_heads : heads(); }
  /// The query, key, value and state that head `head` of the output uses.
  std::int64_t query_of(std::int64_t head) const { return head / (out_heads() / query_heads); }
  std::int64_t state_of(std::int64_t head) const { return head / (out_heads() / heads()); }
  /// The key and value that update state `state`.
  std::int64_t key_of(std::int64_t state) const { return state / (heads() / key_heads); }
  std::int64_t value_of(std::int64_t state) const { return state / (heads() / value_heads); }
};
/// Checks attributes and types; throws Error(kInvalidModel), DimMismatch for sizes that differ.
LinearAttention linear_attention(const Attrs& attrs, Types inputs);

}  // namespace sinter::ir
