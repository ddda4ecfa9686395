// SPDX-License-Identifier: Apache-2.0
// Libraries of host operators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinter/export.h>
#include <sinter/sinter_operator.h>

namespace sinter {

/// Functions that compute operators of plans: sinter/sinter_operator.h says what they are. Copies
/// share them. A shared library that was opened stays in the process: threads of its own may be
/// running.
class SINTER_API OperatorLibrary {
 public:
  /// Opens a shared library as dlopen does: a name without a slash is looked for where the system
  /// has libraries. Throws Error(kUsage) if it cannot be opened, exports no table, or has one of
  /// another version.
  static OperatorLibrary open(const std::string& path);
  /// Operators of the program itself. `name` is what messages call them. The table's functions and
  /// names stay until `owner` is released. Throws Error(kUsage) for a table that makes no sense.
  static OperatorLibrary of_table(const sinter_operator_table& table, const std::string& name,
                                  std::shared_ptr<const void> owner = nullptr);

  const std::string& name() const;
  /// "com.example::RowSum", as the table has them.
  const std::vector<sinter_operator>& operators() const;

 private:
  struct Impl;
  explicit OperatorLibrary(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sinter
