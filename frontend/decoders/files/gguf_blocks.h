// SPDX-License-Identifier: Apache-2.0
// ggml's types of tensors: plain elements, and blocks that become values, scales and offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "ir/scale_format.h"
#include "ir/tensor.h"

namespace sinter::frontend {

/// A tensor's bytes in a file, which `owner` keeps alive; `forget` may be null (ir::Buffer).
struct StoredBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::function<void()> forget;
};

/// A type of GGUF files. `read` takes whole rows of blocks; null: the type is known by name only.
struct BlockType {
  std::uint32_t id = 0;
  std::string_view name;
  int elements = 1, bytes = 0;  // of a block
  std::variant<ir::Tensor, ir::ScaledTensor> (*read)(StoredBytes stored,
                                                     const ir::Ints& shape) = nullptr;
};

/// Null: there is none.
const BlockType* find_block_type(std::uint32_t id);
/// "F32, F16, Q4_0, ..": all that can be read.
std::string block_type_names();

}  // namespace sinter::frontend
