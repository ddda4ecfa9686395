// SPDX-License-Identifier: Apache-2.0
// Reading files that a user names. Only regular files are read: a pipe could block, and a device
// may have no end.
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

/// A regular file open for reading, or the reason why not.
struct InputFile {
  Descriptor descriptor;
  struct stat status {};
  std::string problem;  // empty: the file is open
  int number = 0;       // errno of the problem; EISDIR for a folder; 0 for other non-regular files

  std::uint64_t size() const { return static_cast<std::uint64_t>(status.st_size); }
  /// The problem as an error with `message`.
  FileError error(const std::string& path, std::string message) const {
    return {ErrorCode::kUsage, std::move(message), path, number};
  }
};

/// Opens a regular file without blocking; does not open other kinds of files. `folder`: descriptor
/// of the folder that a relative `path` starts from. `follow`: follows a symbolic link; otherwise a
/// link is a problem.
InputFile open_input(const std::string& path, int folder = -1, bool follow = true);

/// Reads up to `bytes`.size() bytes from the current position and returns the number read. Throws
/// FileError(kUsage) naming `path` if the read fails.
std::size_t read_some(const Descriptor& file, std::span<std::byte> bytes, const std::string& path);

/// Reads a whole regular file. Throws FileError(kUsage), "WHAT 'PATH' cannot be read: WHY", also
/// for files of more than `most` bytes.
std::string read_file(const std::string& path, std::string_view what = "",
                      std::uint64_t most = std::uint64_t{1} << 40);

/// Opens a file or a pipe as a stream. Throws FileError(kUsage), "cannot read 'PATH': WHY".
std::ifstream open_stream(const std::string& path);

}  // namespace sinter::files
