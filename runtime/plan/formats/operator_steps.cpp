// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/formats/operator_steps.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include <sinter/dtype.h>

namespace sinter::plan {
namespace {

class Upgrade {
 public:
  explicit Upgrade(fb::PlanT& plan) : plan_(plan) {}

  /// Converts `work` if it is one of the old steps.
  void change(fb::WorkUnion& work) {
    if (const auto* sort = work.AsSortStep())
      work.Set(of(*sort));
    else if (const auto* suppression = work.AsSuppressionStep())
      work.Set(of(*suppression));
    else if (const auto* sampling = work.AsSamplingStep())
      work.Set(of(*sampling));
    else if (const auto* logprobs = work.AsLogprobsStep())
      work.Set(of(*logprobs));
    else if (const auto* trees = work.AsTreeStep())
      work.Set(of(*trees));
  }

 private:
  struct Operand {
    std::uint32_t buffer;
    std::vector<std::uint32_t> shape;  // expressions
  };

  static fb::OperatorStepT call(const char* name, std::initializer_list<Operand> inputs,
                                std::initializer_list<Operand> outputs) {
    fb::OperatorStepT step;
    step.operator_name = name;
    const auto add = [](const Operand& operand, auto& to) {
      auto tensor = std::make_unique<fb::HostTensorT>();
      tensor->buffer = operand.buffer;
      tensor->shape = operand.shape;
      to.push_back(std::move(tensor));
    };
    for (const Operand& input : inputs) add(input, step.inputs);
    for (const Operand& output : outputs) add(output, step.outputs);
    return step;
  }

  static fb::HostAttributeT& add_attribute(fb::OperatorStepT& step, const char* name) {
    auto& attribute = *step.attributes.emplace_back(std::make_unique<fb::HostAttributeT>());
    attribute.name = name;
    return attribute;
  }

  std::uint32_t add(fb::ExprNode node) {
    plan_.expressions.push_back(node);
    return static_cast<std::uint32_t>(plan_.expressions.size() - 1);
  }
  std::uint32_t constant(std::int64_t value) {
    const auto [at, is_new] = constants_.try_emplace(value, 0);
    if (is_new) at->second = add({fb::ExprOp::Constant, 0, 0, value});
    return at->second;
  }

  /// Size of a constant buffer; 0 if the buffer is no constant.
  std::int64_t bytes_of(std::uint32_t buffer) const {
    if (buffer >= plan_.buffers.size()) return 0;
    const std::uint32_t bytes = plan_.buffers[buffer]->bytes;
    if (bytes >= plan_.expressions.size()) return 0;
    const fb::ExprNode& node = plan_.expressions[bytes];
    return node.op() == fb::ExprOp::Constant ? std::max<std::int64_t>(node.value(), 0) : 0;
  }

  fb::OperatorStepT of(const fb::SortStepT& old) {
    fb::OperatorStepT step = call("sort", {{old.input, {old.outer, old.length, old.inner}}},
                                  {{old.output, {old.outer, old.count, old.inner}}});
    add_attribute(step, "descending").integer = old.descending ? 1 : 0;
    return step;
  }

  fb::OperatorStepT of(const fb::SuppressionStepT& old) {
    fb::OperatorStepT step = call(
        "suppression",
        {{old.boxes, {old.rows, old.length, constant(4)}}, {old.valid, {old.rows, old.length}}},
        {{old.kept, {old.rows, old.length}}});
    fb::HostAttributeT& iou = add_attribute(step, "iou");
    iou.is_float = true;
    iou.real = old.iou;
    add_attribute(step, "most");
    return step;
  }

  fb::OperatorStepT of(const fb::SamplingStepT& old) {
    const std::uint32_t padded = add({fb::ExprOp::Add, old.vocabulary, constant(31), 0});
    const std::uint32_t words = add({fb::ExprOp::FloorDiv, padded, constant(32), 0});
    return call("sampling",
                {{old.logits, {old.rows, old.vocabulary}},
                 {old.reals, {old.rows, constant(4)}},
                 {old.integers, {old.rows, constant(6)}},
                 {old.sets, {old.sets_rows, words}},
                 {old.biased, {old.biases_count}},
                 {old.biases, {old.biases_count}}},
                {{old.tokens, {old.rows}}});
  }

  fb::OperatorStepT of(const fb::LogprobsStepT& old) {
    return call("logprobs",
                {{old.logits, {old.rows, old.vocabulary}},
                 {old.tokens, {old.rows}},
                 {old.wanted, {old.rows}}},
                {{old.likeliest, {old.rows, constant(old.most)}},
                 {old.logprobs, {old.rows, constant(std::int64_t{old.most} + 1)}}});
  }

  fb::OperatorStepT of(const fb::TreeStepT& old) {
    const std::uint8_t type =
        old.weights < plan_.buffers.size() ? plan_.buffers[old.weights]->dtype : kDTypeCount;
    const std::int64_t element =
        type < kDTypeCount ? static_cast<std::int64_t>(size_of(static_cast<DType>(type))) : 1;
    const std::int64_t width = std::max<std::int64_t>(old.width, 1);
    const std::uint32_t nodes =
        constant(std::min(bytes_of(old.nodes) / 12, bytes_of(old.thresholds) / element));
    fb::OperatorStepT step = call(
        "trees",
        {{old.rows_of, {old.rows, constant(old.columns)}},
         {old.nodes, {nodes, constant(3)}},
         {old.thresholds, {nodes}},
         {old.trees, {constant(bytes_of(old.trees) / 8), constant(2)}},
         {old.weights, {constant(bytes_of(old.weights) / (element * width)), constant(old.width)}}},
        {{old.result, {old.rows, constant(old.targets)}}});
    add_attribute(step, "combine").integer = old.combine;
    return step;
  }

  fb::PlanT& plan_;
  std::map<std::int64_t, std::uint32_t> constants_;
};

}  // namespace

void make_operator_steps(fb::PlanT& plan) {
  Upgrade upgrade(plan);
  for (auto& step : plan.steps) upgrade.change(step->work);
}

}  // namespace sinter::plan
