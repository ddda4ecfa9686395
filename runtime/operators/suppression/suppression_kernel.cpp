// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/operators/operator_kernel.h"

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

/// A thread does whole rows, one box after the other beside those that it has kept.
class Suppression final : public PreparedOperator {
 public:
  explicit Suppression(const OperatorCall& call)
      : rows_(call.sizes["rows"]),
        length_(call.sizes["length"]),
        most_(static_cast<float>(call.real("iou"))),
        most_kept_(call.sizes["most"] == 0 ? length_ : call.sizes["most"]),
        threads_(call.threads) {}

  std::size_t workspace_bytes() const override {
    return whole_lines(5 * sizeof(float) * static_cast<std::size_t>(length_));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (length_ == 0) return;
    // A box is compared with those that were kept, several in a nanosecond.
    constexpr double kBox = 5, kCompared = 0.3;
    const auto boxes = static_cast<double>(length_),
               kept = std::min(boxes / 2, static_cast<double>(most_kept_));
    each_row(rows_, boxes * (kBox + kCompared * kept), threads_, workspaces,
             [&](std::int64_t row, std::byte* workspace) {
               run_row(operands.input<float>(0) + 4 * length_ * row,
                       operands.input<std::byte>(1) + length_ * row,
                       operands.output<std::byte>(0) + length_ * row,
                       reinterpret_cast<float*>(workspace));
             });
  }

 private:
  void run_row(const float* boxes, const std::byte* valid, std::byte* kept, float* work) const {
    Kept before(work, length_);
    for (std::int64_t i = 0; i < length_; ++i) {
      if (before.count == most_kept_) {
        std::fill(kept + i, kept + length_, std::byte{0});
        return;
      }
      const float* box = boxes + 4 * i;
      const float area = (box[2] - box[0]) * (box[3] - box[1]);
      const bool keep = valid[i] != std::byte{0} && !(area > 0 && before.overlap(box, area, most_));
      kept[i] = std::byte{keep};
      if (keep) before.add(box, area);
    }
  }

  std::int64_t rows_, length_;
  float most_;
  std::int64_t most_kept_;
  int threads_;
};

}  // namespace

const OperatorKernel& suppression_kernel() {
  static const OperatorKernel kernel = {"suppression", prepare<Suppression>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
