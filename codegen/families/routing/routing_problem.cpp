// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/routing/routing_problem.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::codegen {

std::int64_t RoutingProblem::most_of_block() const {
  const std::int64_t most = kBlockChoices / chosen;
  return rule ? std::min(most, kBlockTokens) : most;
}
bool RoutingProblem::may_be_few(const ExprTable& exprs) const {
  return ir::lower_bound(tokens, exprs.ranges()).value_or(0) <= most_of_block();
}
bool RoutingProblem::may_be_many(const ExprTable& exprs) const {
  return extent && ir::upper_bound(tokens, exprs.ranges()).value_or(kMostTokens) > most_of_block();
}
std::vector<Dim> RoutingProblem::scratch_bytes(const ExprTable& exprs) const {
  if (!may_be_many(exprs)) return {};
  std::vector<Dim> bytes = {Dim(kMostTiles * (*extent + 1) * 4)};
  if (rule && !choices) bytes.push_back(tokens * Dim(chosen * 4));
  return bytes;
}
std::size_t RoutingProblem::kernels_behind(const ExprTable& exprs) const {
  return may_be_many(exprs) ? 1 : 0;
}

std::string RouteRule::to_string() const {
  return fmt::format(
      "{} of {}{} bias {} groups {} {} {} {}normalises {} {} {} {} padding {} {}", scores, experts,
      product ? fmt::format(" of {}{}", product->depth, product->added ? " +" : "") : "",
      bias.has_value(), groups, kept_groups, group_scores, zero_outside ? "zero_outside " : "",
      normalises, epsilon, scale, jitter, is_token.has_value(), none);
}
std::string RoutingProblem::to_string() const {
  std::string wanted;
  for (const auto* result :
       {&choices, &shares, &order, &offsets, &tokens_of, &experts_of, &rows_of})
    wanted += result->has_value() ? '1' : '0';
  return fmt::format("routing {} tokens {} chosen {} divisor {} extent {} last {} results {}",
                     rule ? rule->to_string() : "given", tokens.to_string(), chosen, divisor,
                     extent.value_or(0), last_expert, wanted);
}

std::vector<std::uint32_t> RoutingProblem::buffers() const {
  std::vector<std::uint32_t> all;
  const auto add = [&](const std::optional<std::uint32_t>& buffer) {
    if (buffer) all.push_back(*buffer);
  };
  if (rule) {
    if (rule->product) {
      all.insert(all.end(), {rule->product->x, rule->product->weights});
      add(rule->product->added);
    } else {
      add(rule->logits);
    }
    add(rule->bias);
    add(rule->is_token);
  }
  for (const auto& buffer :
       {given, choices, shares, order, offsets, tokens_of, experts_of, rows_of})
    add(buffer);
  return all;
}

}  // namespace sinter::codegen
