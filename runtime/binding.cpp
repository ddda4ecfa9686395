// SPDX-License-Identifier: Apache-2.0
#include "runtime/binding.h"

#include <algorithm>

#include <sinter/error.h>

#include "runtime/plan/entries.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::runtime {
namespace {

std::vector<std::int64_t> evaluate_shape(const std::vector<std::uint32_t>& shape,
                                         const std::vector<std::int64_t>& expressions) {
  std::vector<std::int64_t> result;
  for (const std::uint32_t dim : shape) result.push_back(expressions[dim]);
  return result;
}

}  // namespace

std::shared_ptr<const BoundShape> BoundShapeCache::get(const std::vector<std::int64_t>& symbols) {
  const auto found = entries_.find(symbols);
  if (found != entries_.end()) {
    found->second.last_use = ++clock_;
    return found->second.shape;
  }
  const plan::fb::PlanT& meta = plan_->meta;
  auto bound = std::make_shared<BoundShape>();
  bound->symbols = symbols;
  bound->entry = plan::find_entry(meta, symbols);
  bound->steps = plan::steps_of(bound->entry);
  bound->steps.count = std::min(bound->steps.count, meta.steps.size());
  bound->expressions = plan::evaluate_expressions(meta, symbols);
  plan::verify_bound(meta, bound->expressions, bound->steps,
                     plan::describe_dimensions(meta, symbols));
  bound->layout = plan::plan_memory(meta, bound->expressions, bound->steps);
  for (const auto& input : meta.inputs)
    bound->input_shapes.push_back(evaluate_shape(input->shape, bound->expressions));
  for (const auto& output : meta.outputs)
    bound->output_shapes.push_back(evaluate_shape(output->shape, bound->expressions));
  if (entries_.size() >= limit_)
    entries_.erase(std::ranges::min_element(entries_, [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    }));
  entries_[symbols] = {bound, ++clock_};
  return bound;
}

std::shared_ptr<const BoundShape> BoundShapeCache::bind(const plan::InputShapes& shapes,
                                                        const plan::InputValues& values) {
  key_.clear();
  for (const auto& shape : shapes) {
    key_.push_back(shape ? static_cast<std::int64_t>(shape->size()) : -1);
    if (shape) key_.insert(key_.end(), shape->begin(), shape->end());
  }
  for (const auto& value : values)
    if (value) key_.push_back(*value);
  if (const auto found = by_inputs_.find(key_); found != by_inputs_.end()) return found->second;
  auto bound = get(plan::bind_symbols(plan_->meta, shapes, values));
  if (by_inputs_.size() >= limit_) by_inputs_.clear();
  by_inputs_.emplace(key_, bound);
  return bound;
}

}  // namespace sinter::runtime
