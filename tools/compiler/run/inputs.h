// SPDX-License-Identifier: Apache-2.0
// Inputs of a run: given, from files, or seeded random.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "tools/compiler/run/npy.h"

namespace sinter::tools {

/// What FILE.npz, NAME=FILE.npy and NAME=FILE.pb hold. Throws Error(kUsage) for anything else, and
/// what `check` throws.
NamedTensors read_tensor_files(const std::vector<std::string>& files, const ArrayCheck& check = {});
/// The files in `texts`, which read_tensor_files takes.
std::vector<std::string> tensor_paths(const std::vector<std::string>& texts);

/// `tensor`, or its bits as bfloat16 where it is the uint16 that NumPy files have for `wanted`.
ir::Tensor as_stored(ir::Tensor tensor, DType wanted);

/// Whether an array may be what `input` is given, as far as bounds tell before there are values of
/// symbols. Throws Error(kUsage) if not.
void check_array(const BindingInfo& input, DType dtype, const std::vector<std::int64_t>& shape);

/// One tensor for each of `inputs`, in their order: what is given, else random. Throws
/// Error(kUsage) for unknown names and malformed files.
std::vector<ir::Tensor> make_inputs(const std::vector<BindingInfo>& inputs,
                                    const RunInputs& options);

/// For people: "seed 0", or the files.
std::string source_of(const RunInputs& inputs);

TensorView view_of(const ir::Tensor& tensor);
/// A copy. Throws Error(kUsage) for device memory.
ir::Tensor tensor_of(const TensorView& view);

/// ir::RelativeError of `a`, which is found, and `b`, which is exact.
double relative_error(const ir::Tensor& a, const ir::Tensor& b);
/// Of two elements; infinite as the relative one.
double largest_difference(const ir::Tensor& a, const ir::Tensor& b);

}  // namespace sinter::tools
