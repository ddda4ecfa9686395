// SPDX-License-Identifier: Apache-2.0
// The sizes of one convolution, however the plan stores it.
#pragma once

#include <cstdint>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

using dims = std::vector<std::int64_t>;

/// Channels second; weights are [m, c / group, kernel..], dilations one less than ONNX's.
struct ConvProblem {
  dims input, weight, output, strides, dilations, begin, end;
  std::int64_t group = 1;
  bool channels_last = false;
  DType input_type = DType::kFloat32, weight_type = DType::kFloat32, output_type = DType::kFloat32;

  /// As many of float32 as take as long.
  double multiplications() const;
  static double elements(const dims& sizes);
  /// Each output is a product of one position's channels.
  bool is_product() const;
};

/// Of a step that has been checked, without the dimensions that nothing happens in.
ConvProblem conv_problem(const plan::PlanData& plan, const plan::fb::ConvStepT& step,
                         const BoundShape& shape);

/// Steps between the elements of dense sizes that are given with channels second.
dims strides_of(const dims& sizes, bool channels_last);

}  // namespace sinter::runtime::cpu
