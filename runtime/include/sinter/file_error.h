// SPDX-License-Identifier: Apache-2.0
// Errors about a file. Standard library only: every folder may include this header.
#pragma once

#include <string>
#include <utility>

#include <sinter/error.h>
#include <sinter/export.h>

namespace sinter {

/// A file that cannot be opened, read or written. Functions of <sinter/compiler.h> throw
/// CompileError with this error nested in it: std::rethrow_if_nested.
class SINTER_API FileError : public Error {
 public:
  FileError(ErrorCode code, std::string message, std::string path, int number)
      : Error(code, std::move(message)), path_(std::move(path)), number_(number) {}

  /// The path as given by the caller.
  const std::string& path() const noexcept { return path_; }
  /// The errno value: ENOENT, EACCES, EISDIR. 0: no errno applies (a pipe where a regular file is
  /// needed).
  int number() const noexcept { return number_; }

 private:
  std::string path_;
  int number_;
};

}  // namespace sinter
