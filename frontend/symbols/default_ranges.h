// SPDX-License-Identifier: Apache-2.0
// The ranges that Sinter gives symbols by default, and what a model narrows them to.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

/// Symbols whose range the user did not give. Importing narrows such a range where a node has no
/// result for some sizes; a range that the user gives is never changed.
class DefaultRanges {
 public:
  explicit DefaultRanges(ir::GraphBuilder& builder) : builder_(builder) {}

  void start(std::set<std::string, std::less<>> symbols) { symbols_ = std::move(symbols); }
  bool contains(const std::string& symbol) const { return symbols_.count(symbol) != 0; }
  /// While it lives, the node `label` is the one that narrows ranges, as warnings name it.
  class AtNode {
   public:
    AtNode(DefaultRanges& ranges, std::string label)
        : ranges_(ranges), outer_(std::exchange(ranges.label_, std::move(label))) {}
    ~AtNode() { ranges_.label_ = std::move(outer_); }
    AtNode(const AtNode&) = delete;
    AtNode& operator=(const AtNode&) = delete;

   private:
    DefaultRanges& ranges_;
    std::string outer_;
  };

  /// `dim`, if it is a symbol, is at most `max`: the node uses it on a dimension of that size.
  void limit(const Dim& dim, std::int64_t max);
  /// `dim`, if it is of one symbol, is at least `least`: the node has no result for less. The
  /// symbol's range begins later if `dim` grows with it, and ends earlier if it shrinks.
  void at_least(const Dim& dim, std::int64_t least);

  /// One sentence for each symbol that was narrowed, with the node that did it last.
  std::vector<std::string> notes() const;

 private:
  enum class End { kLeast, kMost };
  void narrow(const std::string& symbol, const ir::Range& range, End end, std::string why);

  ir::GraphBuilder& builder_;
  std::set<std::string, std::less<>> symbols_;
  std::string label_;
  std::map<std::string, std::map<End, std::string>> why_;  // by symbol
};

}  // namespace sinter::frontend
