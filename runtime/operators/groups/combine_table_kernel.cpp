// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/row_ops.h"
#include "runtime/operators/groups/groups.h"

namespace sinter::runtime::cpu {
namespace {

constexpr std::int64_t kReplaces = 4;  // "combine", behind the Combines

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

/// Updates in their order, by threads of which each has a part of the result and reads all indices:
/// some rows, or, where each element has an index, some columns. Tables that are small beside the
/// updates have copies, one for each of a few runs of the updates, that meet in the order of the
/// runs. Floats of up to 32 bits are combined in the workspace.
class CombineTable final : public PreparedOperator {
 public:
  explicit CombineTable(const OperatorCall& call)
      : type_(call.type_of_input(0)),
        index_type_(call.type_of_input(2)),
        replaces_(call.sizes["combine"] == kReplaces),
        combine_(replaces_ ? Combine::kSum : static_cast<Combine>(call.sizes["combine"])),
        rows_(call.sizes["rows"]),
        width_(call.sizes["width"]),
        count_(call.sizes["count"]),
        by_element_(call.sizes["index_width"] != 1 || width_ == 1),
        is_filled_(call.sizes["data_rows"] != rows_ || call.sizes["data_width"] != width_) {
    constexpr double kElementsPerNanosecond = 8;
    threads_ = threads::team_for(
        static_cast<double>((rows_ + count_) * width_) / kElementsPerNanosecond, call.threads);
    constexpr std::int64_t kMostCopied = 4096, kRuns = 8, kLeast = 4096;
    const std::int64_t table = rows_ * width_;
    if (!replaces_ && width_ <= kNarrow && table <= kMostCopied && count_ >= kLeast &&
        count_ >= kRuns * rows_)
      runs_ = kRuns;
    constexpr std::int64_t kColumns = 16;  // a line of floats
    by_columns_ = by_element_ && width_ >= 2 * kColumns;
    const std::int64_t divided = by_columns_ ? width_ / kColumns : rows_;
    parts_ = std::clamp<std::int64_t>(divided, 1, threads_);
    most_ = by_columns_ ? ((width_ + parts_ - 1) / parts_ + kColumns - 1) / kColumns * kColumns
                        : (rows_ + parts_ - 1) / parts_;
  }

  std::size_t workspace_bytes() const override {
    const auto bytes = [](std::int64_t elements) {
      return whole_lines(static_cast<std::size_t>(elements) * sizeof(double));
    };
    if (runs_ > 0) return bytes(rows_ * width_) * static_cast<std::size_t>(runs_);
    if (!is_widened()) return 0;
    return bytes(by_columns_ ? rows_ * most_ : most_ * width_);
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (rows_ == 0 || width_ == 0) return;
    if (runs_ > 0) return run_copies(operands, workspaces);
    threads::run_parts(parts_, threads_, [&](threads::Member& member) {
      std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
      while (const auto part = member.next()) {
        const std::int64_t all = by_columns_ ? width_ : rows_;
        const std::int64_t begin = std::min(all, *part * most_), end = std::min(all, begin + most_);
        const Area area = by_columns_ ? Area{0, rows_, begin, end} : Area{begin, end, 0, width_};
        if (begin < end) run_area(operands, area, workspace);
      }
    });
  }

 private:
  static constexpr std::int64_t kNarrow = 8;

  struct Area {
    std::int64_t row, rows_end, column, columns_end;
    std::int64_t columns() const { return columns_end - column; }
    std::int64_t rows() const { return rows_end - row; }
  };

  /// What floats of up to 32 bits become while they are combined.
  bool is_widened() const {
    return !replaces_ && is_float(type_) && type_ != DType::kFloat64 &&
           (type_ != DType::kFloat32 || width_ <= kNarrow);
  }

  template <typename Use>
  void with_stored(const Use& use) const {
    if (type_ == DType::kFloat16) return use(HalfAt(), double());
    if (type_ == DType::kBFloat16) return use(BFloatAt(), double());
    if (type_ == DType::kFloat32 && (is_widened() || runs_ > 0))
      return use(NumberAt<float>(), double());
    with_compute_type(type_, [&](auto* kind) {
      using T = std::remove_pointer_t<decltype(kind)>;
      use(NumberAt<T>(), T());
    });
  }

  template <typename Use>
  void with_combine(const Use& use) const {
    switch (combine_) {
      case Combine::kSum: return use(std::integral_constant<Combine, Combine::kSum>());
      case Combine::kProd: return use(std::integral_constant<Combine, Combine::kProd>());
      case Combine::kMax: return use(std::integral_constant<Combine, Combine::kMax>());
      case Combine::kMin: return use(std::integral_constant<Combine, Combine::kMin>());
    }
  }

  std::size_t offset_of(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * width_ + column) * size_of(type_);
  }

  /// The data of an area, as it is, into the result.
  void copy_data(const Operands& operands, const Area& area) const {
    const auto* data = operands.input<std::byte>(0);
    auto* to = operands.output<std::byte>(0);
    const std::size_t size = size_of(type_);
    if (!is_filled_ && area.columns() == width_) {
      std::memcpy(to + offset_of(area.row, 0), data + offset_of(area.row, 0),
                  static_cast<std::size_t>(area.rows() * width_) * size);
      return;
    }
    for (std::int64_t row = area.row; row < area.rows_end; ++row) {
      std::byte* at = to + offset_of(row, area.column);
      if (!is_filled_)
        std::memcpy(at, data + offset_of(row, area.column),
                    static_cast<std::size_t>(area.columns()) * size);
      else
        for (std::int64_t c = 0; c < area.columns(); ++c)
          std::memcpy(at + static_cast<std::size_t>(c) * size, data, size);
    }
  }

  void run_area(const Operands& operands, const Area& area, std::byte* workspace) const {
    if (!is_widened()) copy_data(operands, area);
    if (!by_element_) return run_rows(operands, area, workspace);
    if (replaces_) return replace_elements(operands, area);
    with_stored([&](auto at, auto number) {
      using T = decltype(number);
      T* sums = is_widened() ? reinterpret_cast<T*>(workspace)
                             : operands.output<T>(0) + area.row * width_ + area.column;
      const std::int64_t pitch = is_widened() ? area.columns() : width_;
      if (is_widened()) read_data<decltype(at)>(operands, area, sums);
      with_combine([&](auto combine) {
        add_elements<combine(), decltype(at)>(operands, area, 0, count_, sums, pitch);
      });
      if (is_widened()) write(operands, area, sums);
    });
  }

  /// Rows as a whole, in the result itself or, of widened types, in the workspace.
  void run_rows(const Operands& operands, const Area& area, std::byte* workspace) const {
    const Indices index(operands, 2, index_type_);
    const auto* values = operands.input<std::byte>(1);
    if (replaces_ || !is_widened()) {
      const RowCombiner combiner = replaces_ ? nullptr : find_row_combiner(combine_, type_);
      auto* to = operands.output<std::byte>(0);
      for (std::int64_t i = 0; i < count_; ++i) {
        const std::int64_t row = row_at(index[i], rows_);
        if (row < area.row || row >= area.rows_end) continue;
        if (replaces_)
          std::memcpy(to + offset_of(row, 0), values + offset_of(i, 0),
                      static_cast<std::size_t>(width_) * size_of(type_));
        else
          combiner(to + offset_of(row, 0), values + offset_of(i, 0), nullptr, width_);
      }
      return;
    }
    with_stored([&](auto at, auto number) {
      using T = decltype(number);
      using At = decltype(at);
      T* sums = reinterpret_cast<T*>(workspace);
      read_data<At>(operands, area, sums);
      const auto* from = operands.input<typename At::Stored>(1);
      with_combine([&](auto combine) {
        for (std::int64_t i = 0; i < count_; ++i) {
          const std::int64_t row = row_at(index[i], rows_);
          if (row < area.row || row >= area.rows_end) continue;
          T* to = sums + (row - area.row) * width_;
          for (std::int64_t c = 0; c < width_; ++c)
            to[c] =
                combine_values<T>(combine(), to[c], static_cast<T>(At::of(from[i * width_ + c])));
        }
      });
      write(operands, area, sums);
    });
  }

  void replace_elements(const Operands& operands, const Area& area) const {
    const Indices index(operands, 2, index_type_);
    const auto replace = [&](auto word) {
      using Word = decltype(word);
      const auto* values = operands.input<Word>(1);
      auto* to = operands.output<Word>(0);
      for (std::int64_t i = 0; i < count_; ++i)
        for (std::int64_t c = area.column; c < area.columns_end; ++c) {
          const std::int64_t row = row_at(index[i * width_ + c], rows_);
          if (row >= area.row && row < area.rows_end) to[row * width_ + c] = values[i * width_ + c];
        }
    };
    switch (size_of(type_)) {
      case 1: return replace(std::uint8_t());
      case 2: return replace(std::uint16_t());
      case 4: return replace(std::uint32_t());
      default: return replace(std::uint64_t());
    }
  }

  template <Combine kCombine, typename At, typename T>
  void add_elements(const Operands& operands, const Area& area, std::int64_t begin,
                    std::int64_t end, T* sums, std::int64_t pitch) const {
    const Indices index(operands, 2, index_type_);
    const auto* values = operands.input<typename At::Stored>(1);
    const bool has_all_rows = area.rows() == rows_;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t c = area.column; c < area.columns_end; ++c) {
        const std::int64_t row = row_at(index[i * width_ + c], rows_);
        if (!has_all_rows && (row < area.row || row >= area.rows_end)) continue;
        T& to = sums[(row - area.row) * pitch + c - area.column];
        to = combine_values<T>(kCombine, to, static_cast<T>(At::of(values[i * width_ + c])));
      }
  }

  template <typename At, typename T>
  void read_data(const Operands& operands, const Area& area, T* sums) const {
    const auto* data = operands.input<typename At::Stored>(0);
    for (std::int64_t row = area.row; row < area.rows_end; ++row)
      for (std::int64_t c = area.column; c < area.columns_end; ++c)
        *sums++ = static_cast<T>(At::of(data[is_filled_ ? 0 : row * width_ + c]));
  }

  template <typename T>
  void write(const Operands& operands, const Area& area, const T* sums) const {
    auto* to = operands.output<std::byte>(0);
    for (std::int64_t row = area.row; row < area.rows_end; ++row)
      for (std::int64_t c = area.column; c < area.columns_end; ++c, ++sums) {
        std::byte* element = to + offset_of(row, c);
        if constexpr (std::is_same_v<T, double>)
          store_double(type_, element, *sums);
        else
          std::memcpy(element, sums, sizeof(T));
      }
  }

  /// The number of runs and their order depend on the sizes alone.
  void run_copies(const Operands& operands, std::span<std::byte* const> workspaces) const {
    const Area all{0, rows_, 0, width_};
    const std::int64_t table = rows_ * width_;
    const std::size_t bytes = workspace_bytes() / static_cast<std::size_t>(runs_);
    const auto copy_of = [&](std::int64_t run) {
      const auto count = std::ssize(workspaces);
      return workspaces[static_cast<std::size_t>(run % count)] +
             static_cast<std::size_t>(run / count) * bytes;
    };
    const Indices index(operands, 2, index_type_);
    with_stored([&](auto at, auto number) {
      using T = decltype(number);
      using At = decltype(at);
      with_combine([&](auto combine) {
        const T identity = identity_of<T>();
        threads::run_parts(runs_, threads_, [&](threads::Member& member) {
          while (const auto run = member.next()) {
            T* sums = reinterpret_cast<T*>(copy_of(*run));
            std::fill_n(sums, table, identity);
            const std::int64_t begin = count_ * *run / runs_, end = count_ * (*run + 1) / runs_;
            if (by_element_) {
              add_elements<combine(), At>(operands, all, begin, end, sums, width_);
              continue;
            }
            const auto* values = operands.input<typename At::Stored>(1);
            for (std::int64_t i = begin; i < end; ++i) {
              T* to = sums + row_at(index[i], rows_) * width_;
              for (std::int64_t c = 0; c < width_; ++c)
                to[c] = combine_values<T>(combine(), to[c],
                                          static_cast<T>(At::of(values[i * width_ + c])));
            }
          }
        });
        T* sums = reinterpret_cast<T*>(copy_of(0));
        const auto* data = operands.input<typename At::Stored>(0);
        for (std::int64_t e = 0; e < table; ++e) {
          T sum = combine_values<T>(combine(), static_cast<T>(At::of(data[is_filled_ ? 0 : e])),
                                    sums[e]);
          for (std::int64_t run = 1; run < runs_; ++run)
            sum = combine_values<T>(combine(), sum, reinterpret_cast<const T*>(copy_of(run))[e]);
          sums[e] = sum;
        }
        write(operands, all, sums);
      });
    });
  }

  template <typename T>
  T identity_of() const {
    using Limits = std::numeric_limits<T>;
    switch (combine_) {
      case Combine::kSum: return T(0);
      case Combine::kProd: return T(1);
      case Combine::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      case Combine::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    }
    return T(0);
  }

  DType type_, index_type_;
  bool replaces_;
  Combine combine_;
  std::int64_t rows_, width_, count_;
  bool by_element_, is_filled_;  // each element has an index; data is one element
  int threads_ = 1;
  std::int64_t runs_ = 0;  // 0: no copies
  bool by_columns_ = false;
  std::int64_t parts_ = 1, most_ = 0;  // of rows or columns, and how many one has at most
};

}  // namespace

const OperatorKernel& combine_table_kernel() {
  static const OperatorKernel kernel = {"combine_table", prepare<CombineTable>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
