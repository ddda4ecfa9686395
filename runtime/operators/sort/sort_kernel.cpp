// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "runtime/cpu/ops/element.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {
namespace {

// Unsigned keys in the order of the elements. Zeros of either sign are one key, so are all NaNs,
// which come last.
template <typename Bits, typename Float>
Bits float_key(Float x) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  // Without branches: this is most of the work where few are wanted. Adding zero makes -0 to 0.
  const Bits bits = std::bit_cast<Bits>(x + Float(0));
  const Bits ordered = bits ^ ((Bits{0} - (bits >> (8 * sizeof(Bits) - 1))) | kSign);
  return x != x ? ~Bits{0} : ordered;
}

/// A key of 32 bits above a place: half the memory, and one comparison.
struct Narrow {
  using Key = std::uint32_t;
  std::uint64_t bits;
  static Narrow of(Key key, std::uint32_t place) {
    return {static_cast<std::uint64_t>(key) << 32 | place};
  }
  std::uint32_t place() const { return static_cast<std::uint32_t>(bits); }
  Key key_above() const { return static_cast<Key>(bits >> 32); }
  bool operator<(Narrow other) const { return bits < other.bits; }
};
struct Wide {
  using Key = std::uint64_t;
  std::uint64_t key, at;
  static Wide of(Key key, std::uint32_t place) { return {key, place}; }
  std::uint32_t place() const { return static_cast<std::uint32_t>(at); }
  Key key_above() const { return key; }
  bool operator<(const Wide& other) const {
    return key != other.key ? key < other.key : at < other.at;
  }
};

bool is_wide(DType dtype) { return size_of(dtype) == 8; }

/// `length` elements of a row from element `begin` on, with a stride of `stride` elements. `few` >
/// 0: only the first `few` in order are wanted; a heap finds them. `entries` has room for all
/// wanted ones.
struct Row {
  std::int64_t first = 0, stride = 0, begin = 0, length = 0, few = 0;
  bool descending = false;
};

/// Whether one of some floats may come before the bound, the float of a key; NaN always may.
bool may_come_before(const float* x, std::int64_t count, float bound, bool descending) {
  int may = 0;
  if (descending) {
#pragma omp simd reduction(| : may)
    for (std::int64_t k = 0; k < count; ++k) may |= static_cast<int>(!(x[k] <= bound));
  } else {
#pragma omp simd reduction(| : may)
    for (std::int64_t k = 0; k < count; ++k) may |= static_cast<int>(!(x[k] >= bound));
  }
  return may != 0;
}
/// The float that float_key made a key of.
float float_of_key(std::uint32_t key) {
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  return std::bit_cast<float>(key & kSign ? key ^ kSign : ~key);
}

/// `may_hold(i, count, key)`: whether one of elements i, i + 1, .. may have a smaller key.
template <typename Entry, typename KeyAt, typename MayHold>
void fill(const Row& row, Entry* entries, const KeyAt& key_at, const MayHold& may_hold) {
  using Key = typename Entry::Key;
  const std::int64_t whole = row.few > 0 ? row.few : row.length;
  const auto place = [&](std::int64_t i) { return static_cast<std::uint32_t>(row.begin + i); };
  for (std::int64_t i = 0; i < whole; ++i) entries[i] = Entry::of(key_at(i), place(i));
  if (row.few == 0) return;
  // The greatest of the smallest is in front. Most blocks hold none that is smaller, and are left
  // after their smallest key is known.
  std::make_heap(entries, entries + row.few);
  constexpr std::int64_t kBlock = 64;
  Key keys[kBlock];
  for (std::int64_t i = row.few; i < row.length; i += kBlock) {
    const std::int64_t count = std::min(kBlock, row.length - i);
    if (!may_hold(i, count, entries[0].key_above())) continue;
    Key least = ~Key{0};
#pragma omp simd reduction(min : least)
    for (std::int64_t k = 0; k < count; ++k) {
      keys[k] = key_at(i + k);
      least = std::min(least, keys[k]);
    }
    if (entries[0].key_above() < least) continue;
    for (std::int64_t k = 0; k < count; ++k) {
      const Entry entry = Entry::of(keys[k], place(i + k));
      if (!(entry < entries[0])) continue;
      std::pop_heap(entries, entries + row.few);
      entries[row.few - 1] = entry;
      std::push_heap(entries, entries + row.few);
    }
  }
}

template <typename Entry>
void read_entries(DType dtype, const std::byte* input, const Row& row, Entry* entries) {
  using Key = typename Entry::Key;
  const auto read = [&](auto* kind, const auto& key_of) {
    using T = std::remove_pointer_t<decltype(kind)>;
    const T* x = reinterpret_cast<const T*>(input) + row.first + row.begin * row.stride;
    const Key flip = row.descending ? ~Key{0} : 0;
    const auto key = [&](T value) {
      return static_cast<Key>(static_cast<Key>(key_of(value)) ^ flip);
    };
    const auto may = [](std::int64_t, std::int64_t, Key) { return true; };
    // Neighbours are read as vectors.
    if (row.stride != 1)
      fill(
          row, entries, [&](std::int64_t i) { return key(x[i * row.stride]); }, may);
    else if constexpr (std::is_same_v<T, float>)
      fill(
          row, entries, [&](std::int64_t i) { return key(x[i]); },
          [&](std::int64_t i, std::int64_t count, Key most) {
            return may_come_before(x + i, count,
                                   float_of_key(static_cast<std::uint32_t>(most ^ flip)),
                                   row.descending);
          });
    else
      fill(
          row, entries, [&](std::int64_t i) { return key(x[i]); }, may);
  };
  if (dtype == DType::kFloat16)
    return read(static_cast<std::uint16_t*>(nullptr),
                [](std::uint16_t x) { return float_key<std::uint32_t>(half_to_float(x)); });
  if (dtype == DType::kBFloat16)
    return read(static_cast<std::uint16_t*>(nullptr),
                [](std::uint16_t x) { return float_key<std::uint32_t>(bfloat_to_float(x)); });
  with_compute_type(dtype, [&](auto* kind) {
    using T = std::remove_pointer_t<decltype(kind)>;
    if constexpr (sizeof(T) > sizeof(Key)) {
      return;  // of another kind of entry
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
      read(kind, [](T x) { return float_key<Bits>(x); });
    } else {
      // Sign extended, the sign bit turned over.
      constexpr Key kSign = std::is_signed_v<T> ? Key{1} << (8 * sizeof(Key) - 1) : 0;
      read(kind, [](T x) { return static_cast<Key>(x) ^ kSign; });
    }
  });
}

/// Sorts entries, whose places ascend, by their keys: a byte after the other, from `entries` to
/// `room` and back. Bytes that all keys have in common are skipped.
void sort_by_bytes(Narrow* entries, Narrow* room, std::int64_t count) {
  constexpr int kBytes = 4, kShift = 32;
  constexpr std::size_t kValues = 256;
  std::uint32_t counts[kBytes][kValues] = {};
  const auto byte_of = [](Narrow entry, int byte) {
    return static_cast<std::size_t>(entry.bits >> (kShift + 8 * byte) & (kValues - 1));
  };
  for (std::int64_t i = 0; i < count; ++i)
    for (int byte = 0; byte < kBytes; ++byte) ++counts[byte][byte_of(entries[i], byte)];
  Narrow *from = entries, *to = room;
  for (int byte = 0; byte < kBytes; ++byte) {
    std::uint32_t* const next = counts[byte];
    if (next[byte_of(from[0], byte)] == static_cast<std::uint32_t>(count)) continue;
    std::uint32_t before = 0;
    for (std::size_t value = 0; value < kValues; ++value)
      before += std::exchange(next[value], before);
    for (std::int64_t i = 0; i < count; ++i) to[next[byte_of(from[i], byte)]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, count, entries);
}

/// A thread sorts whole rows: entries of a key and a place, no two of which are equal, so that the
/// result does not depend on the algorithm. A few of many are found with a heap, more by
/// partitioning first. Where there are fewer long rows than threads, and few elements wanted,
/// threads share a row: each finds those of a part.
class Sort final : public PreparedOperator {
 public:
  explicit Sort(const OperatorCall& call)
      : dtype_(call.type_of_input(0)),
        // Rows of nothing may be more than can be counted.
        rows_(call.sizes["length"] == 0 ? 0 : call.sizes["outer"] * call.sizes["inner"]),
        length_(call.sizes["length"]),
        inner_(call.sizes["inner"]),
        count_(call.sizes["count"]),
        descending_(call.sizes["descending"] != 0) {
    // Comparing elements with a heap's front, sorting them by bytes or by comparing.
    constexpr double kCompared = 0.5, kByBytes = 8, kSorted = 2;
    const auto length = static_cast<double>(length_);
    const double nanoseconds =
        length * (wants_few()        ? kCompared
                  : sorts_by_bytes() ? kByBytes
                                     : kSorted * std::log2(std::max(length, 2.0)));
    threads_ = threads::team_for(static_cast<double>(rows_) * nanoseconds,
                                 static_cast<int>(std::min<std::int64_t>(rows_, call.threads)));
    // A part is much longer than what it finds, which one thread merges.
    constexpr std::int64_t kMerged = 64;
    if (rows_ > 0 && wants_few() && rows_ < call.threads)
      shared_ = std::clamp<std::int64_t>(length_ / std::max<std::int64_t>(count_ * kMerged, 1), 1,
                                         threads::team_for(nanoseconds, call.threads));
  }

  std::size_t workspace_bytes() const override {
    const std::size_t size = is_wide(dtype_) ? sizeof(Wide) : sizeof(Narrow);
    const std::int64_t entries = wants_few()        ? count_ * shared_
                                 : sorts_by_bytes() ? 2 * length_
                                                    : length_;
    return whole_lines(static_cast<std::size_t>(entries) * size);
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (rows_ == 0 || count_ == 0) return;
    const auto* input = operands.input<std::byte>(0);
    auto* output = operands.output<std::int64_t>(0);
    if (const auto shared = std::min<std::int64_t>(shared_, std::ssize(workspaces)); shared > 1) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        if (is_wide(dtype_))
          share_row<Wide>(input, output, row, workspaces.first(static_cast<std::size_t>(shared)));
        else
          share_row<Narrow>(input, output, row, workspaces.first(static_cast<std::size_t>(shared)));
      }
      return;
    }
    const int team = std::min(threads_, static_cast<int>(workspaces.size()));
    const std::int64_t parts = std::min(rows_, threads::parts_of(team));
    threads::run_parts(parts, team, [&](threads::Member& member) {
      std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
      while (const auto part = member.next())
        for (std::int64_t row = rows_ * *part / parts; row < rows_ * (*part + 1) / parts; ++row) {
          if (is_wide(dtype_))
            sort_row<Wide>(input, output, row, workspace);
          else
            sort_row<Narrow>(input, output, row, workspace);
        }
    });
  }

 private:
  /// So few that a heap of them is kept, not all elements.
  bool wants_few() const { return count_ * 16 <= length_; }
  /// In so long rows that counting bytes is less work than comparing.
  bool sorts_by_bytes() const {
    constexpr std::int64_t kLeast = 256;
    return !is_wide(dtype_) && !wants_few() && length_ >= kLeast;
  }

  template <typename Entry>
  void sort_row(const std::byte* input, std::int64_t* output, std::int64_t row,
                std::byte* workspace) const {
    Entry* entries = reinterpret_cast<Entry*>(workspace);
    const std::int64_t outer = row / inner_, column = row % inner_;
    read_entries(dtype_, input,
                 {outer * length_ * inner_ + column, inner_, 0, length_, wants_few() ? count_ : 0,
                  descending_},
                 entries);
    Entry* const middle = entries + count_;
    if (wants_few()) {
      std::sort_heap(entries, middle);
      return write(entries, output, row);
    }
    if constexpr (std::is_same_v<Entry, Narrow>) {
      if (sorts_by_bytes()) {
        sort_by_bytes(entries, entries + length_, length_);
        return write(entries, output, row);
      }
    }
    Entry* const end = entries + length_;
    if (count_ < length_) std::nth_element(entries, middle, end);
    std::sort(entries, middle);
    write(entries, output, row);
  }

  /// Each part of the row has a workspace of its own, whichever thread takes it.
  template <typename Entry>
  void share_row(const std::byte* input, std::int64_t* output, std::int64_t row,
                 std::span<std::byte* const> workspaces) const {
    const std::int64_t parts = std::ssize(workspaces);
    const auto found = [&](std::int64_t part) {
      return reinterpret_cast<Entry*>(workspaces[static_cast<std::size_t>(part)]);
    };
    const std::int64_t first = row / inner_ * length_ * inner_ + row % inner_;
    threads::run_parts(parts, static_cast<int>(parts), [&](threads::Member& member) {
      while (const auto part = member.next()) {
        const std::int64_t begin = length_ * *part / parts, end = length_ * (*part + 1) / parts;
        read_entries(dtype_, input, {first, inner_, begin, end - begin, count_, descending_},
                     found(*part));
      }
    });
    Entry* const all = found(0);
    for (std::int64_t part = 1; part < parts; ++part)
      std::copy_n(found(part), count_, all + part * count_);
    std::nth_element(all, all + count_, all + parts * count_);
    std::sort(all, all + count_);
    write(all, output, row);
  }

  template <typename Entry>
  void write(const Entry* entries, std::int64_t* output, std::int64_t row) const {
    std::int64_t* to = output + row / inner_ * count_ * inner_ + row % inner_;
    for (std::int64_t i = 0; i < count_; ++i) to[i * inner_] = entries[i].place();
  }

  DType dtype_;
  std::int64_t rows_, length_, inner_, count_;
  bool descending_;
  int threads_ = 1;
  std::int64_t shared_ = 1;  // parts of a row
};

}  // namespace

const OperatorKernel& sort_kernel() {
  static const OperatorKernel kernel = {"sort", prepare<Sort>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
