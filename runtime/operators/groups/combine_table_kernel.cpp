// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/operators/groups/groups.h"

namespace sinter::runtime::cpu {
namespace {

// How elements are stored.
struct HalfAt {
  using Stored = std::uint16_t;
  static float of(Stored bits) { return half_to_float(bits); }
};
struct BFloatAt {
  using Stored = std::uint16_t;
  static float of(Stored bits) { return bfloat_to_float(bits); }
};
template <typename T>
struct NumberAt {
  using Stored = T;
  static T of(T value) { return value; }
};

/// Every thread has a part of the rows and reads all indices. Floats up to 32 bits are combined in
/// float64, in the workspace; others in the result itself.
class CombineTable final : public PreparedOperator {
 public:
  explicit CombineTable(const OperatorCall& call)
      : type_(call.type_of_input(0)),
        index_type_(call.type_of_input(2)),
        combine_(static_cast<Combine>(call.sizes["combine"])),
        rows_(call.sizes["rows"]),
        width_(call.sizes["width"]),
        count_(call.sizes["count"]),
        is_filled_(call.sizes["data_rows"] != rows_ || call.sizes["data_width"] != width_) {
    constexpr std::int64_t kElementsPerThread = 32768;
    const std::int64_t worth =
        std::max<std::int64_t>(1, (rows_ + count_) * width_ / kElementsPerThread);
    parts_ = static_cast<int>(
        std::clamp<std::int64_t>(std::min(worth, rows_), 1, std::max(1, call.threads)));
  }

  std::size_t workspace_bytes() const override {
    if (!is_widened()) return 0;
    const std::int64_t rows = (rows_ + parts_ - 1) / parts_;
    return whole_lines(static_cast<std::size_t>(rows * width_) * sizeof(double));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (rows_ == 0 || width_ == 0) return;
    threads::run_parts(parts_, parts_, [&](threads::Member& member) {
      std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
      while (const auto part = member.next()) {
        const std::int64_t most = (rows_ + parts_ - 1) / parts_;
        const std::int64_t begin = std::min(rows_, *part * most),
                           end = std::min(rows_, begin + most);
        if (is_widened())
          run_rows<double>(operands, begin, end, reinterpret_cast<double*>(workspace));
        else
          with_compute_type(type_, [&](auto* kind) {
            using T = std::remove_pointer_t<decltype(kind)>;
            run_rows<T>(operands, begin, end, operands.output<T>(0) + begin * width_);
          });
      }
    });
  }

 private:
  bool is_widened() const { return is_float(type_) && type_ != DType::kFloat64; }

  template <typename T>
  void run_rows(const Operands& operands, std::int64_t begin, std::int64_t end, T* sums) const {
    if constexpr (std::is_same_v<T, double>) {
      if (type_ == DType::kFloat16) return scan<HalfAt>(operands, begin, end, sums);
      if (type_ == DType::kBFloat16) return scan<BFloatAt>(operands, begin, end, sums);
      if (type_ == DType::kFloat32) return scan<NumberAt<float>>(operands, begin, end, sums);
    }
    scan<NumberAt<T>>(operands, begin, end, sums);
  }

  template <typename At, typename T>
  void scan(const Operands& operands, std::int64_t begin, std::int64_t end, T* sums) const {
    switch (combine_) {
      case Combine::kSum: return scan_as<Combine::kSum, At>(operands, begin, end, sums);
      case Combine::kProd: return scan_as<Combine::kProd, At>(operands, begin, end, sums);
      case Combine::kMax: return scan_as<Combine::kMax, At>(operands, begin, end, sums);
      case Combine::kMin: return scan_as<Combine::kMin, At>(operands, begin, end, sums);
    }
  }

  template <Combine kCombine, typename At, typename T>
  void scan_as(const Operands& operands, std::int64_t begin, std::int64_t end, T* sums) const {
    using Stored = typename At::Stored;
    const auto read = [](const Stored* p) { return static_cast<T>(At::of(*p)); };
    const auto* data = operands.input<Stored>(0);
    const auto* values = operands.input<Stored>(1);
    const Indices index(operands, 2, index_type_);
    for (std::int64_t e = 0; e < (end - begin) * width_; ++e)
      sums[e] = read(is_filled_ ? data : data + begin * width_ + e);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t row = row_at(index[i], rows_);
      if (row < begin || row >= end) continue;
      T* to = sums + (row - begin) * width_;
      for (std::int64_t c = 0; c < width_; ++c)
        to[c] = combine_values<T>(kCombine, to[c], read(values + i * width_ + c));
    }
    if (is_widened())
      for (std::int64_t e = 0; e < (end - begin) * width_; ++e)
        store_double(type_,
                     operands.output<std::byte>(0) +
                         static_cast<std::size_t>(begin * width_ + e) * size_of(type_),
                     static_cast<double>(sums[e]));
  }

  DType type_, index_type_;
  Combine combine_;
  std::int64_t rows_, width_, count_;
  bool is_filled_;
  int parts_ = 1;
};

}  // namespace

const OperatorKernel& combine_table_kernel() {
  static const OperatorKernel kernel = {"combine_table", prepare<CombineTable>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
