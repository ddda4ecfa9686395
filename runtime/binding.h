// SPDX-License-Identifier: Apache-2.0
// Symbol values to bound shapes, which are kept. runtime/plan/input_shapes.h finds the values.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/plan/input_shapes.h"

namespace sinter::runtime {

/// Bound shapes by their symbols, and by the inputs' shapes, so that shapes that were seen are
/// found without a look at the plan and without allocating. The least recently used is dropped
/// beyond a limit.
class BoundShapeCache {
 public:
  BoundShapeCache(std::shared_ptr<const plan::PlanData> plan, std::size_t limit)
      : plan_(std::move(plan)), limit_(limit) {}

  /// Evaluates, checks and lays out what is new. Throws Error(kInvalidPlan).
  std::shared_ptr<const BoundShape> get(const std::vector<std::int64_t>& symbols);
  /// The shape that bind_symbols finds for `shapes` and `values`. Throws Error(kUsage), too.
  std::shared_ptr<const BoundShape> bind(const plan::InputShapes& shapes,
                                         const plan::InputValues& values);

 private:
  struct Entry {
    std::shared_ptr<const BoundShape> shape;
    std::uint64_t last_use = 0;
  };
  std::shared_ptr<const plan::PlanData> plan_;
  std::size_t limit_;
  std::uint64_t clock_ = 0;
  std::map<std::vector<std::int64_t>, Entry> entries_;
  // By rank and dimensions of each input, -1 for one without a shape, and the values that count.
  std::map<std::vector<std::int64_t>, std::shared_ptr<const BoundShape>> by_inputs_;
  std::vector<std::int64_t> key_;
};

}  // namespace sinter::runtime
