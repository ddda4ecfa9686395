// SPDX-License-Identifier: Apache-2.0
// Iterators over the loops of an access.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace sinter::runtime::cpu {

/// Maximum number of loops in a walk; the verifier enforces it.
inline constexpr std::size_t kMaxAxes = 32;

/// Strides over the loops of one role.
struct Strides {
  std::vector<std::int64_t> extents, steps;
  std::int64_t step = 0;  // over the joint index, if `linear`
  bool linear = true;
};
/// Merges adjacent loops where their strides allow it.
Strides joined(const Strides& strides);

/// [low, high) of i in [0, count) with 0 <= base + i * step < extent.
struct Interval {
  std::int64_t low, high;
};
inline Interval valid(std::int64_t base, std::int64_t step, std::int64_t extent,
                      std::int64_t count) {
  if (step == 0) return base >= 0 && base < extent ? Interval{0, count} : Interval{0, 0};
  if (step == 1) {  // most are, and divisions take long
    const std::int64_t low = std::clamp<std::int64_t>(-base, 0, count);
    return {low, std::clamp<std::int64_t>(extent - base, low, count)};
  }
  const auto ceil_div = [](std::int64_t a, std::int64_t b) {  // b > 0
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
  };
  // For a descending index, count from the other end of the valid range.
  const std::int64_t first = step > 0 ? -base : base - extent + 1;
  const std::int64_t end = step > 0 ? extent - base : base + 1;
  const std::int64_t low = std::clamp<std::int64_t>(ceil_div(first, std::abs(step)), 0, count);
  const std::int64_t high = std::clamp<std::int64_t>(ceil_div(end, std::abs(step)), low, count);
  return {low, high};
}

/// The offset of one linear form as the joint index over several loops advances.
class Walker {
 public:
  Walker(const Strides& strides, std::int64_t start) : strides_(strides) {
    if (strides.linear) {
      offset_ = start * strides.step;
      return;
    }
    for (std::size_t d = strides.extents.size(); d-- > 0;) {
      index_[d] = start % strides.extents[d];
      start /= strides.extents[d];
      offset_ += index_[d] * strides.steps[d];
    }
  }

  std::int64_t offset() const { return offset_; }

  void next() {
    if (strides_.linear) {
      offset_ += strides_.step;
      return;
    }
    for (std::size_t d = strides_.extents.size(); d-- > 0;) {
      offset_ += strides_.steps[d];
      if (++index_[d] < strides_.extents[d]) return;
      offset_ -= index_[d] * strides_.steps[d];
      index_[d] = 0;
    }
  }

  /// Elements until the end of the innermost loop, or `limit` if the loops are linear.
  std::int64_t run(std::int64_t limit) const {
    if (strides_.linear) return limit;
    return std::min(limit, strides_.extents.back() - index_[strides_.extents.size() - 1]);
  }
  std::int64_t run_step() const { return strides_.linear ? strides_.step : strides_.steps.back(); }

  void skip(std::int64_t count) {
    if (strides_.linear) {
      offset_ += count * strides_.step;
      return;
    }
    const std::size_t last = strides_.extents.size() - 1;
    index_[last] += count - 1;
    offset_ += (count - 1) * strides_.steps[last];
    next();
  }

 private:
  const Strides& strides_;
  std::array<std::int64_t, kMaxAxes> index_;
  std::int64_t offset_ = 0;
};

/// The index over the loops of one role as their joint index advances, for several linear forms.
class Odometer {
 public:
  Odometer(const std::vector<std::int64_t>& extents, std::int64_t joint) : extents_(extents) {
    for (std::size_t d = extents.size(); d-- > 0;) {
      index_[d] = joint % extents[d];
      joint /= extents[d];
    }
  }

  std::int64_t form(const std::int64_t* steps) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < extents_.size(); ++d) sum += steps[d] * index_[d];
    return sum;
  }
  /// Elements until the end of the innermost loop.
  std::int64_t run() const { return extents_.back() - index_[extents_.size() - 1]; }
  /// Must not pass the end of the innermost loop.
  void skip(std::int64_t count) {
    for (std::size_t d = extents_.size(); d-- > 0;) {
      index_[d] += count;
      if (index_[d] < extents_[d]) return;
      index_[d] = 0;
      count = 1;
    }
  }

 private:
  const std::vector<std::int64_t>& extents_;
  std::array<std::int64_t, kMaxAxes> index_;
};

}  // namespace sinter::runtime::cpu
