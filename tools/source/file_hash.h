// SPDX-License-Identifier: Apache-2.0
// Hashes of files' contents, which are remembered: a file that has not changed is read once.
#pragma once

#include <string>
#include <string_view>

namespace sinter::tools {

/// XXH3-128 of `text`, in hexadecimal.
std::string hash_of(std::string_view text);

class FileHashes {
 public:
  /// `folder`: where hashes are kept; empty: nowhere.
  explicit FileHashes(std::string folder) : folder_(std::move(folder)) {}

  /// XXH3-128 of the contents of a regular file, in hexadecimal. It is remembered by path, size,
  /// times, device and inode. Throws FileError(kUsage) if the file cannot be read.
  std::string of(const std::string& path) const;

 private:
  std::string folder_;
};

}  // namespace sinter::tools
