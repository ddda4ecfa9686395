// SPDX-License-Identifier: Apache-2.0
// The sizes of a convolution, independent of the plan's layout.
#pragma once

#include <cstdint>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

using dims = std::vector<std::int64_t>;

/// Channels second (NCHW); weights are [m, c / group, kernel..]; dilations are ONNX's minus one.
struct ConvProblem {
  dims input, weight, output, strides, dilations, begin, end;
  std::int64_t group = 1;
  bool channels_last = false;
  DType input_type = DType::kFloat32, weight_type = DType::kFloat32, output_type = DType::kFloat32;

  /// Number of float32 multiplications that take the same time.
  double multiplications() const;
  static double elements(const dims& sizes);
  /// True for a 1x1 convolution that is a GEMM over channels.
  bool is_product() const;
};

/// The sizes of a verified step, without spatial dimensions of size 1.
ConvProblem conv_problem(const plan::PlanData& plan, const plan::fb::ConvStepT& step,
                         const BoundShape& shape);

/// Strides of a dense tensor with sizes in NCHW order.
dims strides_of(const dims& sizes, bool channels_last);

}  // namespace sinter::runtime::cpu
