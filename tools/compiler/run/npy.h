// SPDX-License-Identifier: Apache-2.0
// NumPy files: .npy arrays and .npz archives of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace sinter::tools {

/// Arrays by name, in the archive's order.
using NamedTensors = std::vector<std::pair<std::string, ir::Tensor>>;

/// Is told what an array is before its data are read or inflated, and throws if they are not
/// wanted.
using ArrayCheck = std::function<void(const std::string& name, DType dtype,
                                      const std::vector<std::int64_t>& shape)>;

/// Throws Error(kUsage) if the file cannot be read or is not what its name says. Types
/// that Sinter does not have are refused by name. bfloat16 is written, and so read, as uint16. No
/// more memory is taken than what the headers say, which the file must be able to hold. `name` is
/// what `check` hears.
ir::Tensor read_npy(const std::string& path, const std::string& name = "",
                    const ArrayCheck& check = {});
NamedTensors read_npz(const std::string& path, const ArrayCheck& check = {});
void write_npz(const std::string& path, const NamedTensors& arrays);

}  // namespace sinter::tools
