// SPDX-License-Identifier: Apache-2.0
// Inputs of a run: given, from files, or seeded random.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "tools/compiler/run/npy.h"

namespace sinter::tools {

/// Contents of FILE.npz, NAME=FILE.npy and NAME=FILE.pb. Throws Error(kUsage) for other texts, and
/// as `check` does.
NamedTensors read_tensor_files(const std::vector<std::string>& files, const ArrayCheck& check = {},
                               const TextTargets& texts = {});
/// The paths in `texts`, in read_tensor_files' syntax.
std::vector<std::string> tensor_paths(const std::vector<std::string>& texts);

/// `tensor`; reinterpreted as bfloat16 (or an 8-bit float) if NumPy's file stores the bits of
/// `wanted`.
ir::Tensor as_stored(ir::Tensor tensor, DType wanted);

/// Throws Error(kUsage) if an array cannot fit `input`; the values of symbols need not be known.
void check_array(const BindingInfo& input, DType dtype, const std::vector<std::int64_t>& shape);

/// One tensor per input, in order: given ones, else random. Throws Error(kUsage) for unknown names
/// and malformed files. `texts`: how arrays of strings become integers.
std::vector<ir::Tensor> make_inputs(const std::vector<BindingInfo>& inputs,
                                    const RunInputs& options, const TextTargets& texts = {});

/// Human-readable source: "seed 0", or the files.
std::string source_of(const RunInputs& inputs);

TensorView view_of(const ir::Tensor& tensor);
/// A copy. Throws Error(kUsage) for device memory.
ir::Tensor tensor_of(const TensorView& view);

/// ir::RelativeError of `a` (measured) relative to `b` (exact).
double relative_error(const ir::Tensor& a, const ir::Tensor& b);
/// Largest difference of two elements; infinite where the relative error is.
double largest_difference(const ir::Tensor& a, const ir::Tensor& b);

}  // namespace sinter::tools
