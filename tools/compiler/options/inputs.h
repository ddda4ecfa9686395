// Inputs of a run: from files, or seeded random.
#pragma once

#include <string>
#include <vector>

#include <sinter/sinter.h>

#include "tools/cli/options.h"
#include "tools/compiler/options/npy.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {

struct InputOptions {
  std::vector<std::string> files;   // in.npz, or NAME=file.npy, NAME=file.pb
  std::string shapes;               // for random inputs
  std::vector<std::string> ranges;  // NAME=LOW..HIGH for random inputs
  std::uint64_t seed = 0;
};
void add_input_options(Command& verb, InputOptions& options);

/// What FILE.npz, NAME=FILE.npy and NAME=FILE.pb hold. Throws Error(kUsage) for anything else.
NamedTensors read_tensor_files(const std::vector<std::string>& files);

/// One tensor for each of `inputs`, in their order: from the files where they give one, else
/// random: floats normal, integers 0 or 1, unless a range says otherwise. Symbolic dimensions that
/// nothing fixes are 1. Throws Error(kUsage) for unknown names and malformed files.
std::vector<ir::Tensor> make_inputs(const std::vector<BindingInfo>& inputs,
                                    const InputOptions& options);

TensorView view_of(const ir::Tensor& tensor);
ir::Tensor tensor_of(const TensorView& view);

/// ||a - b|| / ||b|| over all elements, in float64. Equal infinities and NaNs at the same place
/// count as equal; otherwise a NaN gives infinity. Zero for two empty tensors.
double relative_error(const ir::Tensor& a, const ir::Tensor& b);
double largest_difference(const ir::Tensor& a, const ir::Tensor& b);

}  // namespace sinter::tools
