// SPDX-License-Identifier: Apache-2.0
// What the tests on a GPU share: graphs to plans to sessions, and comparison with the reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "fusion/pipeline.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace sinter::gpu_test {

/// The architecture of GPU 0, "sm_90"; of $SINTER_GPU_ARCH or "sm_90" on a machine without one,
/// where only compilation can be tested.
std::string architecture();

/// Tests of kernels by warpgroups, which other architectures do not have: skipped there.
class WarpgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (architecture() != "sm_90") GTEST_SKIP() << "no warpgroups on " << architecture();
  }
};

/// A plan file for architecture(). Kernels are cached in the folder $SINTER_KERNEL_CACHE if it is
/// set.
std::vector<std::byte> plan_bytes(const ir::Graph& graph, bool fuse,
                                  fusion::Precision precision = fusion::Precision::kModel);
Plan compile(const ir::Graph& graph, bool fuse,
             fusion::Precision precision = fusion::Precision::kModel);

/// The same with all products by one schedule or way (codegen::CompileOptions::gemm).
Plan compile_with(const ir::Graph& graph, const std::string& schedule, bool tf32 = false);

/// Seeded inputs: floats uniform in [-1, 1), integers in [-3, 3), booleans.
std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const ir::Bindings& sizes,
                                      std::uint64_t seed = 1);

TensorView view_of(const ir::Tensor& tensor);
ir::Tensor tensor_of(const TensorView& host);

/// Sets all inputs, runs and copies the outputs, which must be in host memory.
std::vector<ir::Tensor> run(Session& session, const ir::Graph& graph,
                            const std::vector<ir::Tensor>& inputs);

/// The largest difference relative to the largest expected value; infinity if types or shapes
/// differ, or one is a NaN and the other is not. Integers and booleans: 0 if equal, else infinity.
double relative_error(const ir::Tensor& found, const ir::Tensor& expected);

/// EXPECTs that outputs are those of the reference, which keeps intermediate values wide.
void expect_reference(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
                      const std::vector<ir::Tensor>& outputs, double tolerance);

/// EXPECTs bitwise equality.
void expect_same_bits(const std::vector<ir::Tensor>& found,
                      const std::vector<ir::Tensor>& expected);

/// Tolerance for relative_error where values are stored in `type`.
double tolerance_of(DType type);

}  // namespace sinter::gpu_test
