// SPDX-License-Identifier: Apache-2.0
// Hashes of models.
#pragma once

#define XXH_INLINE_ALL
#include <cstddef>
#include <cstdint>
#include <span>

#include <xxhash.h>

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace sinter::frontend {

/// XXH3 of consecutive pieces.
class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~Hasher() { XXH3_freeState(state_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
  }
  std::uint64_t digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

/// XXH3 of the graph's nodes, inputs and outputs, excluding the values of initializers.
std::uint64_t structure_of(const onnx::ModelProto& model);

}  // namespace sinter::frontend
