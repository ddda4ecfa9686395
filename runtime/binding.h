// SPDX-License-Identifier: Apache-2.0
// Cache from symbol values to bound shapes. runtime/plan/input_shapes.h finds the values.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/plan/input_shapes.h"

namespace sinter::runtime {

/// LRU cache of bound shapes, by symbols and by the inputs' shapes. A shape seen before is found
/// without reading the plan and without allocating.
class BoundShapeCache {
 public:
  BoundShapeCache(std::shared_ptr<const plan::PlanData> plan, std::size_t limit)
      : plan_(std::move(plan)), limit_(limit) {}

  /// Evaluates, checks and lays out a new shape. Throws Error(kInvalidPlan).
  std::shared_ptr<const BoundShape> get(const std::vector<std::int64_t>& symbols);
  /// The shape that bind_symbols finds for `shapes` and `values`. Also throws Error(kUsage).
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
  // Key: rank and dimensions of each input (-1 for an unset one), then the values that matter.
  std::map<std::vector<std::int64_t>, std::shared_ptr<const BoundShape>> by_inputs_;
  std::vector<std::int64_t> key_;
};

}  // namespace sinter::runtime
