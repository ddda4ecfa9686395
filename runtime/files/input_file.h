// SPDX-License-Identifier: Apache-2.0
// Reading files that somebody named. Only regular files are read: a pipe would be waited for, and a
// device has no end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sinter/file_error.h>
#include <sys/stat.h>

#include "runtime/files/descriptor.h"

namespace sinter::files {

/// A regular file that is open for reading, or why it is not.
struct InputFile {
  Descriptor descriptor;
  struct stat status {};
  std::string problem;  // empty: it is open
  int number = 0;  // the problem's errno; EISDIR of a folder; 0 of what else is no regular file

  std::uint64_t size() const { return static_cast<std::uint64_t>(status.st_size); }
  /// The problem as an error that says `message`.
  FileError error(const std::string& path, std::string message) const {
    return {ErrorCode::kUsage, std::move(message), path, number};
  }
};

/// Never waits, and does not touch what is no regular file. `folder`: a descriptor that a relative
/// `path` is below of; `follow`: what a symbolic link names is opened, else a link is a problem.
InputFile open_input(const std::string& path, int folder = -1, bool follow = true);

/// As many bytes from where the file is read as there are, up to `bytes`.size(); how many they are.
/// Throws FileError(kUsage) naming `path` if it cannot be read.
std::size_t read_some(const Descriptor& file, std::span<std::byte> bytes, const std::string& path);

/// All of a regular file. Throws FileError(kUsage), "WHAT 'PATH' cannot be read: WHY", also if it
/// has more than `most` bytes.
std::string read_file(const std::string& path, std::string_view what = "",
                      std::uint64_t most = std::uint64_t{1} << 40);

/// A file to be read as it comes, which may be a pipe. Throws FileError(kUsage), "cannot read
/// 'PATH': WHY".
std::ifstream open_stream(const std::string& path);

}  // namespace sinter::files
