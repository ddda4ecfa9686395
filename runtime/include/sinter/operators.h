// SPDX-License-Identifier: Apache-2.0
// Libraries of host operators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinter/export.h>
#include <sinter/sinter_operator.h>

namespace sinter {

/// Functions that implement custom operators of plans (sinter/sinter_operator.h). Copies share
/// them. An opened shared library is never unloaded, since its own threads may be running.
class SINTER_API OperatorLibrary {
 public:
  /// Opens a shared library with dlopen: a name without a slash is searched in the system's library
  /// path. Throws Error(kUsage) if it cannot be opened, exports no table, or exports a table of
  /// another ABI version.
  static OperatorLibrary open(const std::string& path);
  /// Registers operators of the program itself; messages call the table `name`. The table's
  /// functions and names must stay valid until `owner` is released. Throws Error(kUsage) for an
  /// invalid table.
  static OperatorLibrary of_table(const sinter_operator_table& table, const std::string& name,
                                  std::shared_ptr<const void> owner = nullptr);

  const std::string& name() const;
  /// Operators in the table's order, with names such as "com.example::RowSum".
  const std::vector<sinter_operator>& operators() const;

 private:
  struct Impl;
  explicit OperatorLibrary(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sinter
