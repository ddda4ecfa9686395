// SPDX-License-Identifier: Apache-2.0
// What a kernel of routing computes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Choices and tokens that one block routes and sorts. Of more tokens there are no more than
/// kMostTiles tiles.
inline constexpr std::int64_t kBlockChoices = 2048, kBlockTokens = 64, kMostTiles = 128;
inline constexpr std::int64_t kMostTokens = INT32_MAX;

/// Logits of few tokens: x [tokens, depth] times weights [experts, depth], plus a number for each
/// expert.
struct RouterOperands {
  std::uint32_t x = 0, weights = 0;  // plan buffers of one type, of 16 bits
  std::optional<std::uint32_t> added;
  DType type = DType::kFloat16, added_type = DType::kFloat16;
  std::int64_t depth = 0;
};

/// A Route (ir/ops/mixture.cpp).
struct RouteRule {
  std::uint32_t logits = 0;               // plan buffers
  std::optional<RouterOperands> product;  // instead of logits
  std::optional<std::uint32_t> bias;
  DType type = DType::kFloat32, bias_type = DType::kFloat32;
  std::int64_t experts = 0, groups = 1, kept_groups = 1, group_scores = 1;
  std::string scores;
  bool normalises = false, zero_outside = false;
  double epsilon = 0, scale = 1, jitter = 0;
  /// A bool for each token; tokens without choose `none`.
  std::optional<std::uint32_t> is_token;
  std::int32_t none = 0;

  std::string to_string() const;
};

/// A Route, or choices that are there, or both; and which row each choice is when they are sorted.
struct RoutingProblem {
  std::optional<RouteRule> rule;
  std::optional<std::uint32_t> given;  // choices i32, without a rule
  Dim tokens;
  std::int64_t chosen = 1;   // by a token
  std::int64_t divisor = 1;  // of a choice's number, for its token's
  /// Rows of choices are those of a GroupByIndex of this extent; none: they are not sorted.
  std::optional<std::int64_t> extent;
  std::int32_t last_expert = INT32_MAX;  // greatest number in experts_of
  std::optional<std::uint32_t> choices, shares, order, offsets, tokens_of, experts_of, rows_of;

  /// One block does all of few tokens: of up to how many.
  std::int64_t most_of_block() const;
  bool may_be_few(const ExprTable& exprs) const;
  bool may_be_many(const ExprTable& exprs) const;
  /// The choices of many tokens, if nothing else holds them; counts of each block.
  std::vector<Dim> scratch_bytes(const ExprTable& exprs) const;
  std::size_t kernels_behind(const ExprTable& exprs) const;
  std::string to_string() const;
  /// Those of the plan that are named here, in this order.
  std::vector<std::uint32_t> buffers() const;
};

}  // namespace sinter::codegen
