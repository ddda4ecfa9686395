// SPDX-License-Identifier: Apache-2.0
// Exports tensors as Arrow arrays that own their memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinter/arrow_abi.h>
#include <sinter/tensor.h>

namespace sinter::arrow {

/// Owner of a structure: releases it unless a receiver has moved it out (then `release` is null).
template <typename Structure>
struct Released {
  Structure value{};

  Released() = default;
  Released(Released&& other) noexcept : value(std::exchange(other.value, {})) {}
  Released& operator=(Released&& other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Released() {
    if (value.release) value.release(&value);
  }
  Structure take() { return std::exchange(value, {}); }
};

/// The type of a tensor's rows: nested fixed-size lists for all dimensions but the first. Throws
/// Error(kUsage) for bfloat16, naming `name`.
Released<ArrowSchema> make_schema(const std::string& name, DType dtype,
                                  const std::vector<std::int64_t>& shape);
/// A dense tensor's rows, in host or device memory that `owner` keeps alive; a tensor of rank 0 is
/// one row. Bool elements must be bits already.
Released<ArrowArray> make_array(const std::vector<std::int64_t>& shape, const void* data,
                                std::shared_ptr<const void> owner);
/// Structs with these fields.
Released<ArrowSchema> make_struct_schema(std::vector<Released<ArrowSchema>> fields);
Released<ArrowArray> make_struct_array(std::int64_t rows, std::vector<Released<ArrowArray>> fields);

}  // namespace sinter::arrow
