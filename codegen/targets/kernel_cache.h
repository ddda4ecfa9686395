// Compiled kernels on disk, found by the content that they were compiled from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

/// A folder of compiled kernels. Any number of processes and threads of one user may share it:
/// entries appear whole and are never changed. An entry that does not match its own hash is deleted
/// and counts as absent. So does, since kernels are code that runs, what belongs to another user or
/// can be written by one: entries, and all of a folder that does. The folder is made with mode
/// 0700. One that cannot be written caches nothing.
class KernelCache {
 public:
  /// An empty folder name: no cache.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  /// XXH3-128 of everything that decides the code, in hexadecimal; `more`: what the source does not
  /// say, such as the ranges of sizes.
  static std::string key(std::string_view source, std::string_view more, std::string_view options,
                         int nvrtc_version, std::string_view architecture);

  std::optional<std::vector<std::byte>> find(const std::string& key) const;
  void insert(const std::string& key, const std::vector<std::byte>& cubin) const;
  /// Where the entry of `key` is kept.
  std::string path(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace sinter::codegen
