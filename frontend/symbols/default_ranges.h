// SPDX-License-Identifier: Apache-2.0
// Default ranges of symbols, and their narrowing by a model.
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

/// Symbols with default ranges. The importer narrows such a range if a node is invalid for some
/// sizes; ranges that the user gave never change.
class DefaultRanges {
 public:
  explicit DefaultRanges(ir::GraphBuilder& builder) : builder_(builder) {}

  void start(std::set<std::string, std::less<>> symbols) { symbols_ = std::move(symbols); }
  bool contains(const std::string& symbol) const { return symbols_.count(symbol) != 0; }
  /// During its lifetime, warnings name `label` as the node that narrows ranges.
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

  /// Limits `dim`, if it is a symbol, to `max`: the node applies it to a dimension of that size.
  void limit(const Dim& dim, std::int64_t max);
  /// Requires `dim` >= `least`, if it has one symbol: the node is invalid for less. Raises the
  /// minimum of the symbol's range if `dim` increases with it, else lowers the maximum.
  void at_least(const Dim& dim, std::int64_t least);

  /// One sentence per narrowed symbol, with the last node that narrowed it.
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
