// SPDX-License-Identifier: Apache-2.0
// NumPy files: .npy arrays and .npz archives of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace sinter::tools {

/// Arrays by name, in the archive's order.
using NamedTensors = std::vector<std::pair<std::string, ir::Tensor>>;

/// Called before an array's data are read or decompressed; throws if they are not wanted.
using ArrayCheck = std::function<void(const std::string& name, DType dtype,
                                      const std::vector<std::int64_t>& shape)>;

/// What an array of strings becomes: integers.
struct TextTarget {
  DType dtype = DType::kInt64;
  std::function<std::int64_t(std::string_view utf8)> code;
};
/// The target for the array `name`; nullopt if it cannot be of strings.
using TextTargets = std::function<std::optional<TextTarget>(const std::string& name)>;

/// Throws Error(kUsage) for unreadable or malformed files and, by name, for types that Sinter
/// lacks. bfloat16 is written and read as uint16. Allocates no more memory than the headers state,
/// which the file must be able to contain. `name` is passed to `check`. Arrays of strings
/// (fixed-width Unicode or bytes) are read where `texts` has a target, and are of its type from the
/// start.
ir::Tensor read_npy(const std::string& path, const std::string& name = "",
                    const ArrayCheck& check = {}, const TextTargets& texts = {});
NamedTensors read_npz(const std::string& path, const ArrayCheck& check = {},
                      const TextTargets& texts = {});
void write_npz(const std::string& path, const NamedTensors& arrays);

}  // namespace sinter::tools
