// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_differences.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/plan/operators/operator_def.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

using Move = void (*)(fb::PlanT& from, fb::PlanT& to);

/// The plan's metadata, except its manifest, its graph text and its refit data.
constexpr std::pair<const char*, Move> kParts[] = {
    {"target",
     [](fb::PlanT& from, fb::PlanT& to) {
       to.target = std::move(from.target);
       to.architectures = std::move(from.architectures);
     }},
    {"compiler",
     [](fb::PlanT& from, fb::PlanT& to) {
       to.compiler_version = std::move(from.compiler_version);
       to.cuda_version = from.cuda_version;
     }},
    {"inputs, outputs or states",
     [](fb::PlanT& from, fb::PlanT& to) {
       to.inputs = std::move(from.inputs);
       to.outputs = std::move(from.outputs);
       to.states = std::move(from.states);
     }},
    {"sizes",
     [](fb::PlanT& from, fb::PlanT& to) {
       to.symbols = std::move(from.symbols);
       to.expressions = std::move(from.expressions);
       to.ranks = from.ranks;
     }},
    {"buffers", [](fb::PlanT& from, fb::PlanT& to) { to.buffers = std::move(from.buffers); }},
    {"entry points", [](fb::PlanT& from, fb::PlanT& to) { to.entries = std::move(from.entries); }},
    {"steps", [](fb::PlanT& from, fb::PlanT& to) { to.steps = std::move(from.steps); }},
    {"kernels",
     [](fb::PlanT& from, fb::PlanT& to) {
       to.modules = std::move(from.modules);
       to.custom_code = std::move(from.custom_code);
     }},
};

std::vector<std::uint8_t> packed(const fb::PlanT& plan) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, &plan));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

/// The first table of an operator (OperandMemory::kTable) that differs, e.g. "nodes of 'trees'";
/// empty: none.
std::string different_table(const plan::PlanData& a, const plan::PlanData& b) {
  for (const auto& step : a.meta.steps) {
    const fb::OperatorStepT* call = step->work.AsOperatorStep();
    if (call == nullptr) continue;
    const plan::OperatorDef& def = *plan::find_operator(call->operator_name);
    for (std::size_t i = 0; i < def.inputs.size(); ++i) {
      if (def.inputs[i].memory != plan::OperandMemory::kTable) continue;
      const fb::BufferT& buffer = *a.meta.buffers[call->inputs[i]->buffer];
      const auto bytes = static_cast<std::uint64_t>(a.meta.expressions[buffer.bytes].value());
      if (!std::ranges::equal(a.weight(buffer, bytes), b.weight(buffer, bytes)))
        return fmt::format("{} of '{}'", def.inputs[i].name, def.name);
    }
  }
  return "";
}

}  // namespace

std::string difference_but_weights(const plan::PlanData& a, const plan::PlanData& b) {
  fb::PlanT left = a.meta, right = b.meta;
  for (const auto& [name, move] : kParts) {
    fb::PlanT one, other;
    move(left, one);
    move(right, other);
    if (packed(one) != packed(other)) return name;
  }
  if (!std::ranges::equal(a.modules, b.modules)) return "kernels";
  if (a.weights.size() != b.weights.size()) return "number of weights";
  return different_table(a, b);
}

}  // namespace sinter::runtime
