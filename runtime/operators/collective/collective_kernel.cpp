// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/cpu/ops/element.h"
#include "runtime/format_error.h"
#include "runtime/operators/collective/collective_kind.h"
#include "runtime/operators/operator_kernel.h"
#include "runtime/ranks/rank_group.h"

namespace sinter::runtime::cpu {
namespace {

using plan::CollectiveKind;

/// The ranks read each other's operands where they lie. Of a long combination each rank computes a
/// part and writes it to all ranks' results; of a short one each computes all.
class Collective final : public PreparedOperator {
 public:
  explicit Collective(const OperatorCall& call)
      : group_(*call.ranks.group),
        rank_(call.ranks.rank),
        kind_(static_cast<CollectiveKind>(call.sizes["kind"])),
        combine_(static_cast<Combine>(call.sizes["combine"])),
        type_(call.type_of_input(0)),
        element_(size_of(type_)) {
    const auto size = [&](std::string_view name) {
      return static_cast<std::size_t>(call.sizes[name]);
    };
    a_ = size("a"), b_ = size("b"), c_ = size("c"), d_ = size("d"), e_ = size("e");
    f_ = size("f"), g_ = size("g");
    const bool combines = kind_ == CollectiveKind::kReduce || kind_ == CollectiveKind::kScatter;
    if (combines && (type_ == DType::kBool || is_float8(type_)))
      throw invalid_plan_error("a collective combines {}, which are no numbers", to_string(type_));
  }

  void run(const Operands& operands, std::span<std::byte* const>) const override {
    group_.arrive(rank_, {operands.input<std::byte>(0), operands.output<std::byte>(0)});
    switch (kind_) {
      case CollectiveKind::kReduce: reduce(); break;
      case CollectiveKind::kGather: gather(); break;
      case CollectiveKind::kScatter: scatter(); break;
      case CollectiveKind::kSplitFirst:
      case CollectiveKind::kSplitLast: exchange(); break;
    }
    group_.depart(rank_);
  }

 private:
  // Elements combined at a time, and bytes from which on each rank computes a part.
  static constexpr std::size_t kChunk = 512, kLong = 32 << 10;

  std::size_t ranks() const { return static_cast<std::size_t>(group_.ranks()); }
  std::size_t me() const { return static_cast<std::size_t>(rank_); }
  const std::byte* from(std::size_t rank) const { return group_.of(static_cast<int>(rank)).from; }
  std::byte* to(std::size_t rank) const { return group_.of(static_cast<int>(rank)).to; }

  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  void reduce() const {
    const std::size_t count = a_ * b_ * c_ * d_ * e_;
    const bool is_long = count * element_ >= kLong;
    const std::size_t first = is_long ? count * me() / ranks() : 0,
                      last = is_long ? count * (me() + 1) / ranks() : count;
    combine(first, last - first, first, is_long);
  }

  void scatter() const {
    const std::size_t inner = c_ * d_ * e_;
    for (std::size_t i = 0; i < a_; ++i)
      combine((i * b_ + me() * f_) * inner, f_ * inner, i * f_ * inner, false);
  }

  void gather() const {
    const std::size_t bytes = b_ * c_ * d_ * e_ * element_;
    for (std::size_t i = 0; i < a_; ++i)
      for (std::size_t r = 0; r < ranks(); ++r)
        copy(to(me()) + (i * ranks() + r) * bytes, from(r) + i * bytes, bytes);
  }

  void exchange() const {
    // Rows [d] of e elements lie together on both sides.
    const bool is_first = kind_ == CollectiveKind::kSplitFirst;
    const std::size_t rows = is_first ? f_ : b_, row = (is_first ? d_ : g_) * e_ * element_;
    for (std::size_t r = 0; r < ranks(); ++r)
      for (std::size_t i = 0; i < a_; ++i)
        for (std::size_t j = 0; j < rows; ++j)
          for (std::size_t k = 0; k < c_; ++k) {
            const std::size_t there =
                ((i * b_ + (is_first ? me() * f_ + j : j)) * c_ + k) * d_ * e_ * element_ +
                (is_first ? 0 : me() * row);
            const std::size_t here =
                ((i * f_ + (is_first ? j : r * b_ + j)) * c_ + k) * g_ * e_ * element_ +
                (is_first ? r * row : 0);
            copy(to(me()) + here, from(r) + there, row);
          }
  }

  /// Combines `count` elements from `at` on of all ranks' operands; writes them to the rank's
  /// result from `target` on, or to all ranks'.
  void combine(std::size_t at, std::size_t count, std::size_t target, bool to_all) const {
    for (std::size_t done = 0; done < count; done += kChunk) {
      const std::size_t some = std::min(kChunk, count - done);
      with_compute_type(type_, [&]<typename T>(T*) {
        if constexpr (std::is_same_v<T, float>)
          combine_floats((at + done) * element_, some);
        else
          combine_as<T>((at + done) * element_, some);
      });
      for (std::size_t r = to_all ? 0 : me(); r < (to_all ? ranks() : me() + 1); ++r)
        copy(to(r) + (target + done) * element_, chunk_, some * element_);
    }
  }

  template <typename T>
  void combine_as(std::size_t at, std::size_t count) const {
    T sums[kChunk], next[kChunk];
    copy(reinterpret_cast<std::byte*>(sums), from(0) + at, count * sizeof(T));
    for (std::size_t r = 1; r < ranks(); ++r) {
      copy(reinterpret_cast<std::byte*>(next), from(r) + at, count * sizeof(T));
      for (std::size_t i = 0; i < count; ++i) sums[i] = combine_values(combine_, sums[i], next[i]);
    }
    copy(chunk_, reinterpret_cast<std::byte*>(sums), count * sizeof(T));
  }

  void combine_floats(std::size_t at, std::size_t count) const {
    float sums[kChunk], next[kChunk];
    const auto some = static_cast<std::int64_t>(count);
    load_floats(type_, from(0) + at, 1, some, sums);
    for (std::size_t r = 1; r < ranks(); ++r) {
      load_floats(type_, from(r) + at, 1, some, next);
      for (std::size_t i = 0; i < count; ++i)
        sums[i] = combine_ == Combine::kSum ? sums[i] + next[i]
                                            : combine_values(combine_, sums[i], next[i]);
    }
    store_floats(type_, sums, chunk_, 1, some);
  }

  RankGroup& group_;
  int rank_;
  CollectiveKind kind_;
  Combine combine_;
  DType type_;
  std::size_t element_, a_ = 0, b_ = 0, c_ = 0, d_ = 0, e_ = 0, f_ = 0, g_ = 0;
  alignas(64) mutable std::byte chunk_[kChunk * sizeof(double)];
};

}  // namespace

const OperatorKernel& collective_kernel() {
  static const OperatorKernel kernel = {"collective", prepare<Collective>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
