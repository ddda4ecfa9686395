// SPDX-License-Identifier: Apache-2.0
// The inverse of I - A for strictly lower triangular A [.., chunks, rows, rows], spelled as PyTorch
// code does: rows 1, 2, .. of A are each replaced by themselves plus their product with the rows
// before; then the identity is added.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

/// If `element`, which lies at `place` of dimension `axis`, is what a Scatter writes there: the
/// element of the updates, and that of the data. The Scatter writes whole slices of the axis.
std::optional<std::pair<ElementAt, ElementAt>> written_slice(const Terms& terms,
                                                             const ElementAt& element,
                                                             std::size_t axis, const Dim& place);

class UnitLower {
 public:
  explicit UnitLower(Sequences& sequences) : sequences_(sequences), terms_(sequences.terms()) {}

  /// If `element` = [batch, head, chunk, row, column] is of the inverse of `rows` rows: A's
  /// element. Otherwise `why` says what does not fit, if anything is looked for.
  std::optional<ElementAt> system_of(const ElementAt& element, std::int64_t rows,
                                     std::string& why) const;

 private:
  bool is_identity(const ElementAt& element, const Dim& row, const Dim& column,
                   std::int64_t rows) const;
  const char* is_solved_row(const ElementAt& update, const ElementAt& before, std::int64_t i) const;
  bool is_row_and_product(const ElementAt& written, const ElementAt& before, std::int64_t i,
                          const Dim& place) const;

  Sequences& sequences_;
  Terms& terms_;
};

}  // namespace sinter::fusion
