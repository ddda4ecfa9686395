// SPDX-License-Identifier: Apache-2.0
// XXH3-64: the hash of plan sections and cache keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sinter::plan {

/// XXH3-64 (seed 0) of `bytes`.
std::uint64_t hash64(std::span<const std::byte> bytes);
inline std::uint64_t hash64(std::string_view text) {
  return hash64(std::as_bytes(std::span(text.data(), text.size())));
}

/// Hashes consecutive pieces without concatenating them.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  std::uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace sinter::plan
