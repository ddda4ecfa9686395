// SPDX-License-Identifier: Apache-2.0
// Cache of compiled kernels on disk, keyed by a hash of the compiler's input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

/// A folder of compiled kernels. Processes and threads of one user may share it: entries appear
/// atomically and never change. An entry that does not match its hash is deleted and counts as
/// absent. As kernels are executed, entries and folders that another user owns or can write
/// count as absent too. The folder is created with mode 0700. An unwritable folder disables
/// caching.
class KernelCache {
 public:
  /// An empty folder name: no cache.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  /// XXH3-128, in hexadecimal, of everything that determines the code. `more` is what the source
  /// does not contain, such as ranges of sizes.
  static std::string key(std::string_view source, std::string_view more, std::string_view options,
                         int nvrtc_version, std::string_view architecture);

  std::optional<std::vector<std::byte>> find(const std::string& key) const;
  void insert(const std::string& key, const std::vector<std::byte>& cubin) const;
  /// The path of the entry of `key`.
  std::string path(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace sinter::codegen
