// NumPy files: .npy arrays and .npz archives of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace sinter::tools {

/// Arrays by name, in the archive's order.
using NamedTensors = std::vector<std::pair<std::string, ir::Tensor>>;

/// Throws Error(kUsage) if the file cannot be read or is not what its name says. Fortran order and
/// types that Sinter does not have are refused by name. bfloat16 is read and written as uint16.
ir::Tensor read_npy(const std::string& path);
NamedTensors read_npz(const std::string& path);
void write_npz(const std::string& path, const NamedTensors& arrays);

}  // namespace sinter::tools
