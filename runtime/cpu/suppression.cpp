// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/suppression.h"

#include <algorithm>

#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

constexpr std::int64_t kBlock = 64;  // boxes that are compared before one is asked for

/// Boxes that were kept, coordinate by coordinate.
struct Kept {
  float *low_x, *low_y, *high_x, *high_y, *area;
  std::int64_t count = 0;

  Kept(float* work, std::int64_t length)
      : low_x(work),
        low_y(work + length),
        high_x(work + 2 * length),
        high_y(work + 3 * length),
        area(work + 4 * length) {}

  void add(const float* box, float its_area) {
    low_x[count] = box[0];
    low_y[count] = box[1];
    high_x[count] = box[2];
    high_y[count] = box[3];
    area[count++] = its_area;
  }

  /// Whether one overlaps `box` by more than `most`.
  bool overlap(const float* box, float its_area, float most) const {
    const float low_x_now = box[0], low_y_now = box[1], high_x_now = box[2], high_y_now = box[3];
    for (std::int64_t first = 0; first < count; first += kBlock) {
      const std::int64_t last = std::min(count, first + kBlock);
      int hits = 0;
#pragma omp simd reduction(| : hits)
      for (std::int64_t k = first; k < last; ++k) {
        const float width = std::min(high_x[k], high_x_now) - std::max(low_x[k], low_x_now);
        const float height = std::min(high_y[k], high_y_now) - std::max(low_y[k], low_y_now);
        const float both = width * height, all = area[k] + its_area - both;
        hits |= static_cast<int>(width > 0) & static_cast<int>(height > 0) &
                static_cast<int>(area[k] > 0) & static_cast<int>(all > 0) &
                static_cast<int>(both / all > most);
      }
      if (hits != 0) return true;
    }
    return false;
  }
};

}  // namespace

Suppression::Suppression(const plan::fb::SuppressionStepT& step, const BoundShape& shape,
                         int threads)
    : boxes_(step.boxes),
      valid_(step.valid),
      kept_(step.kept),
      rows_(shape.expressions[step.rows]),
      length_(shape.expressions[step.length]),
      most_(step.iou),
      threads_(static_cast<int>(std::clamp<std::int64_t>(rows_, 1, threads))) {}

std::size_t Suppression::workspace_bytes() const {
  return (5 * sizeof(float) * static_cast<std::size_t>(length_) + 63) / 64 * 64;
}

void Suppression::run_row(const float* boxes, const std::byte* valid, std::byte* kept,
                          float* work) const {
  Kept before(work, length_);
  for (std::int64_t i = 0; i < length_; ++i) {
    const float* box = boxes + 4 * i;
    const float area = (box[2] - box[0]) * (box[3] - box[1]);
    const bool keep = valid[i] != std::byte{0} && !(area > 0 && before.overlap(box, area, most_));
    kept[i] = std::byte{keep};
    if (keep) before.add(box, area);
  }
}

void Suppression::run(std::span<std::byte* const> buffers,
                      std::span<std::byte* const> workspaces) const {
  if (rows_ == 0 || length_ == 0) return;
  const auto* boxes = reinterpret_cast<const float*>(buffers[boxes_]);
  const int team = std::min(threads_, static_cast<int>(workspaces.size()));
  threads::run_parts(rows_, team, [&](threads::Member& member) {
    auto* work = reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(member.me())]);
    while (const auto row = member.next())
      run_row(boxes + 4 * length_ * *row, buffers[valid_] + length_ * *row,
              buffers[kept_] + length_ * *row, work);
  });
}

}  // namespace sinter::runtime::cpu
