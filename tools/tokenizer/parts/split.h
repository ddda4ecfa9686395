// SPDX-License-Identifier: Apache-2.0
// What becomes of a text that is cut at matches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::tools {

/// What happens to matches: they are separate parts; dropped; joined with the previous or next
/// part; or consecutive matches form one part.
enum class SplitBehavior : std::uint8_t {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// Splits at matches from left to right, as Hugging Face's NormalizedString::split does. Calls
/// `cut(begin, end)` for each part.
class Splitter {
 public:
  /// `inverts`: text between matches counts as the matches.
  Splitter(SplitBehavior behavior, bool inverts) : behavior_(behavior), inverts_(inverts) {}

  template <typename Cut>
  void match(std::size_t begin, std::size_t end, const Cut& cut) {
    if (done_ != begin) part(done_, begin, inverts_, cut);
    part(begin, end, !inverts_, cut);
    done_ = end;
  }
  template <typename Cut>
  void finish(std::size_t size, const Cut& cut) {
    if (done_ != size) part(done_, size, inverts_, cut);
    if (has_held_) cut(begin_, end_);
  }

 private:
  /// Holds a part back while the next one may join it.
  template <typename Cut>
  void part(std::size_t begin, std::size_t end, bool matches, const Cut& cut) {
    switch (behavior_) {
      case SplitBehavior::kIsolated: return cut(begin, end);
      case SplitBehavior::kRemoved:
        if (!matches) cut(begin, end);
        return;
      case SplitBehavior::kContiguous:
        return hold(begin, end, matches == held_matches_, matches, cut);
      case SplitBehavior::kMergedWithPrevious:
        return hold(begin, end, matches && !held_matches_, matches, cut);
      case SplitBehavior::kMergedWithNext:
        // A match joins the next part, unless that is a match itself.
        return hold(begin, end, held_matches_ && !matches, matches, cut);
    }
  }
  template <typename Cut>
  void hold(std::size_t begin, std::size_t end, bool joins, bool matches, const Cut& cut) {
    if (joins && has_held_) {
      end_ = end;
    } else {
      if (has_held_) cut(begin_, end_);
      begin_ = begin;
      end_ = end;
      has_held_ = true;
    }
    held_matches_ = matches;
  }

  SplitBehavior behavior_;
  bool inverts_;
  std::size_t done_ = 0, begin_ = 0, end_ = 0;
  bool has_held_ = false, held_matches_ = false;
};

}  // namespace sinter::tools
