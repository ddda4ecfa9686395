// SPDX-License-Identifier: Apache-2.0
// The groups of a run that have rows, and their division among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

/// How rows chose groups: "12 rows in 3 of 8 groups, most 6 in group 2: 4.0 times an even share".
inline std::string note_of_groups(const std::int32_t* offsets, std::int64_t groups,
                                  std::int64_t rows) {
  std::int64_t done = 0, all = 0, used = 0, most = 0, at = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t begin = std::clamp<std::int64_t>(offsets[g], done, rows);
    done = std::clamp<std::int64_t>(offsets[g + 1], begin, rows);
    const std::int64_t own = done - begin;
    all += own;
    used += own > 0 ? 1 : 0;
    if (own > most) most = own, at = g;
  }
  if (all == 0) return "no rows in any group";
  return fmt::format("{} rows in {} of {} groups, most {} in group {}: {:.1f} times an even share",
                     all, used, groups, most, at,
                     static_cast<double>(most * groups) / static_cast<double>(all));
}

/// A group with rows [begin, end), whose blocks of columns are numbered from `first` on.
struct RowGroup {
  std::int64_t group, begin, end, first;
};

/// The groups that have rows, in memory for all of them and one more.
class RowGroups {
 public:
  static std::size_t bytes(std::int64_t groups) {
    return whole_lines(sizeof(RowGroup) * static_cast<std::size_t>(groups + 1));
  }

  /// `blocks_of(rows)`: blocks of columns of a group. Clears rows of `pitch` bytes that are in no
  /// group.
  template <typename BlocksOf>
  RowGroups(const std::int32_t* offsets, std::int64_t groups, std::int64_t rows, std::byte* memory,
            std::byte* y, std::size_t pitch, const BlocksOf& blocks_of)
      : groups_(reinterpret_cast<RowGroup*>(memory)) {
    std::int64_t done = 0;
    const auto clear_to = [&](std::int64_t row) {
      if (row > done)
        std::memset(y + static_cast<std::size_t>(done) * pitch, 0,
                    static_cast<std::size_t>(row - done) * pitch);
    };
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = std::clamp<std::int64_t>(offsets[g], done, rows),
                         end = std::clamp<std::int64_t>(offsets[g + 1], begin, rows);
      if (begin == end) continue;
      clear_to(begin);
      groups_[count_++] = {g, begin, end, blocks_};
      blocks_ += blocks_of(end - begin);
      done = end;
    }
    clear_to(rows);
    groups_[count_].first = blocks_;
  }

  std::int64_t blocks() const { return blocks_; }
  /// The group that has block `block`.
  const RowGroup& of_block(std::int64_t block) const {
    return *(std::upper_bound(
                 groups_, groups_ + count_, block,
                 [](std::int64_t value, const RowGroup& each) { return value < each.first; }) -
             1);
  }

  /// Calls take(group, block of its columns, workspace) for each block.
  template <typename Take>
  void each_block(int threads, std::span<std::byte* const> workspaces, std::size_t used,
                  const Take& take) const {
    if (blocks_ == 0) return;
    const int team = static_cast<int>(
        std::clamp<std::int64_t>(threads, 1, std::min(blocks_, std::ssize(workspaces))));
    threads::run_parts(blocks_, team, [&](threads::Member& member) {
      std::byte* const workspace = workspaces[static_cast<std::size_t>(member.me())] + used;
      while (const auto block = member.next()) {
        const RowGroup& group = of_block(*block);
        take(group, *block - group.first, workspace);
      }
    });
  }

 private:
  RowGroup* groups_;
  std::int64_t count_ = 0, blocks_ = 0;
};

}  // namespace sinter::runtime::cpu
