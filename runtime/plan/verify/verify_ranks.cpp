// SPDX-License-Identifier: Apache-2.0
// Verifies what ranks share and what each has for itself.
#include <algorithm>

#include "runtime/plan/expressions.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/plan/verify/checker.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::plan {
namespace {

/// The rank's number decides addresses and values, but no size: ranks do the same work.
void verify_symbol(const Checker& check, std::size_t number) {
  const fb::PlanT& plan = check.plan;
  const fb::SymbolT& symbol = *plan.symbols[number];
  if (plan.ranks < 2 || symbol.min != 0 || symbol.max != plan.ranks - 1 || symbol.value_of != -1 ||
      symbol.extent_of != -1 || symbol.tokens_of != -1)
    check.fail("symbol '{}', from {} to {}, is not the number of one of {} ranks", symbol.name,
               symbol.min, symbol.max, plan.ranks);
  const std::vector<bool> depends = expressions_with(plan, number);
  for (const auto& buffer : plan.buffers)
    if (depends[buffer->bytes]) check.fail("the size of a buffer depends on the rank");
  for (const auto* bindings : {&plan.inputs, &plan.outputs})
    for (const auto& binding : *bindings)
      for (const std::uint32_t dim : binding->shape)
        if (depends[dim]) check.fail("the shape of '{}' depends on the rank", binding->name);
  for (const auto& other : plan.symbols)
    if (other->bound >= 0 && depends[static_cast<std::size_t>(other->bound)])
      check.fail("the bound of symbol '{}' depends on the rank", other->name);
  for (const auto& entry : plan.entries)
    for (const fb::Limit& limit : entry->limits)
      if (limit.symbol() == number) check.fail("an entry point is for some ranks alone");
}

void verify_part(const Checker& check, const fb::BufferT& buffer, const BlobSizes& blobs) {
  const std::uint32_t ranks = check.plan.ranks;
  if (buffer.rank_step == 0) {
    if (buffer.sharing != 1) check.fail("ranks share parts of what is not split");
    return;
  }
  if (buffer.kind != fb::BufferKind::Weight || ranks < 2)
    check.fail("ranks have parts of it, and it is no weight of several ranks");
  if (buffer.sharing < 1 || buffer.sharing > ranks || ranks % buffer.sharing != 0)
    check.fail("{} of {} ranks share each part", buffer.sharing, ranks);
  const auto bytes = static_cast<std::uint64_t>(check.plan.expressions[buffer.bytes].value());
  const std::uint64_t behind = ranks / buffer.sharing - 1,
                      left = blobs.weights - buffer.weight_offset - bytes;
  if (buffer.rank_step % kWeightAlignment != 0 || (behind > 0 && buffer.rank_step > left / behind))
    check.fail(
        "its {} parts, {} bytes apart from {} on, are misaligned or outside the {} bytes of "
        "weights",
        behind + 1, buffer.rank_step, buffer.weight_offset, blobs.weights);
}

void verify_state(const Checker& check, const fb::StateT& state) {
  const std::uint32_t ranks = check.plan.ranks;
  const fb::BindingT& input = *check.plan.inputs[state.input];
  const bool is_whole = state.axis == -1 && state.parts == 1;
  const bool is_split = state.axis >= 0 &&
                        static_cast<std::size_t>(state.axis) < input.shape.size() &&
                        state.parts >= 2 && state.parts <= ranks && ranks % state.parts == 0;
  if (!is_whole && !is_split)
    check.fail("state '{}' has {} parts along dimension {}, for {} ranks", input.name, state.parts,
               state.axis, ranks);
}

}  // namespace

void verify_ranks(Checker& check, const BlobSizes& blobs) {
  const fb::PlanT& plan = check.plan;
  if (plan.ranks < 1 || plan.ranks > kMostRanks)
    check.fail("it is for {} ranks; this library runs 1 to {}", plan.ranks, kMostRanks);
  if (plan.target == "cuda" && plan.ranks > kMostPeers)
    check.fail("it is for {} ranks; this library runs up to {} on GPUs", plan.ranks, kMostPeers);
  bool has_symbol = false;
  for (std::size_t s = 0; s < plan.symbols.size(); ++s) {
    if (!plan.symbols[s]->is_rank) continue;
    if (std::exchange(has_symbol, true)) check.fail("two symbols are the number of the rank");
    verify_symbol(check, s);
  }
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    check.where = fmt::format("buffer {}", i);
    verify_part(check, *plan.buffers[i], blobs);
  }
  check.where.clear();
  for (const auto& state : plan.states) verify_state(check, *state);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const fb::OperatorStepT* call = plan.steps[i]->work.AsOperatorStep();
    if (call == nullptr || call->operator_name != "collective") continue;
    check.where = fmt::format("step {} '{}'", i, plan.steps[i]->name);
    for (const auto& attribute : call->attributes)
      if (attribute->name == "ranks" && attribute->integer != plan.ranks)
        check.fail("{} ranks meet there, the plan is for {}", attribute->integer, plan.ranks);
  }
  check.where.clear();
}

}  // namespace sinter::plan
