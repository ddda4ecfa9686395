// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/exact_caches.h"

#include <algorithm>

#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"

namespace sinter::tools {
namespace {

ir::Tensor exact_rows(const ir::Tensor& values, const ir::Tensor& scales,
                      const fusion::QuantizedCache& cache) {
  std::vector<double> all = values.to_doubles();
  const std::vector<double> factors = scales.to_doubles();
  const auto width = static_cast<std::size_t>(values.shape().back());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] *= factors[i / width];
  if (!cache.mean) return ir::Tensor::from_doubles(cache.from, values.shape(), all);
  const std::vector<ir::Tensor> parts{
      ir::Tensor::from_doubles(DType::kFloat64, values.shape(), all),
      ir::reference::convert(*cache.mean, DType::kFloat64)};
  return ir::reference::convert(ir::evaluate_op(ir::get_op("Add"), {}, parts)[0], cache.from);
}

}  // namespace

std::vector<ir::Tensor> with_exact_caches(std::vector<ir::Tensor> tensors,
                                          const std::vector<std::string>& names,
                                          const std::vector<fusion::QuantizedCache>& caches,
                                          bool is_input) {
  const auto place_of = [&](const std::string& name) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end())
      throw Error(ErrorCode::kInternal, "the plan has no '" + name + "' of a cache");
    return static_cast<std::size_t>(at - names.begin());
  };
  std::vector<bool> is_scales(tensors.size(), false);
  for (const fusion::QuantizedCache& cache : caches) {
    const std::size_t values = place_of(is_input ? cache.input : cache.output),
                      scales = place_of(is_input ? cache.scales : cache.output_scales);
    tensors[values] = exact_rows(tensors[values], tensors[scales], cache);
    is_scales[scales] = true;
  }
  std::vector<ir::Tensor> result;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!is_scales[i]) result.push_back(std::move(tensors[i]));
  return result;
}

}  // namespace sinter::tools
