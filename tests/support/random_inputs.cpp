// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_inputs.h"

#include <cmath>
#include <random>

#include "ir/graph.h"

namespace sinter::test {

std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const ir::Bindings& sizes,
                                      std::uint64_t seed, double largest) {
  std::mt19937_64 random(seed);
  std::vector<ir::Tensor> inputs;
  for (const ir::ValueId id : graph.inputs()) {
    const ir::TensorType& type = graph.type(id);
    std::vector<std::int64_t> shape;
    std::size_t count = 1;
    for (const ir::Dim& dim : type.shape) {
      shape.push_back(dim.evaluate(sizes));
      count *= static_cast<std::size_t>(shape.back());
    }
    std::vector<double> values(count);
    for (double& value : values) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      value = is_float(type.dtype)         ? largest * (2 * unit - 1)
              : type.dtype == DType::kBool ? std::floor(2 * unit)
                                           : std::floor(6 * unit) - 3;
    }
    inputs.push_back(ir::Tensor::from_doubles(type.dtype, shape, values));
  }
  return inputs;
}

}  // namespace sinter::test
