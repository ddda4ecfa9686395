// SPDX-License-Identifier: Apache-2.0
// The operation graphs against the library itself, for a GPU that is only described (cuDNN 9.8
// can): what its compiled engines take. Engines that are compiled at run time need a driver, so
// what only they do (SiLU, GELU) is seen on a GPU alone: tests/gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cudnn/cudnn_engines.h"
#include "tests/runtime/cpu/conv_case.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SINTER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SINTER_SANITIZED 1
#endif
#endif

namespace sinter::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

// An H200's, as the library describes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
constexpr std::string_view kDevice = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "pciDeviceId": 6, "multiProcessorCount": 132, "warpSize": 32, "regsPerBlock": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
  "totalGlobalMem": 150109880320})";

class RealCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef SINTER_SANITIZED
    GTEST_SKIP() << "without a driver the library leaks what it has begun";
#endif
    try {
      library = runtime::load_cudnn();
      device =
          std::make_unique<runtime::CudnnDescriptor>(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
      device
          ->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                static_cast<std::int64_t>(kDevice.size()), kDevice.data())
          .finalize();
    } catch (const Error& error) {
      GTEST_SKIP() << "no cuDNN that describes devices: " << error.what();
    }
  }

  runtime::ConvProblem problem_of(const ConvCase& test, DType type,
                                  fb::MathMode math = fb::MathMode::Default) {
    PlanBuilder builder;
    fb::ConvStepT step = test.step(builder);
    step.math = math;
    step.input = step.weight = step.output = builder.arena(type, {builder.constant(1)});
    if (test.bias) step.bias = 0;
    if (test.residual) step.residual = 0;
    return runtime::bind_conv(builder.meta, step, plan::evaluate_expressions(builder.meta, {}));
  }
  /// How many candidates there are, all of which must be made ready.
  std::size_t engines(const runtime::ConvProblem& problem) {
    const runtime::CudnnTarget target{library, nullptr, device->handle()};
    why.clear();
    const auto candidates = runtime::conv_candidates(target, problem, why);
    for (const runtime::EngineChoice& choice : candidates) try {
        const runtime::ConvPlan plan(target, problem, choice);
      } catch (const Error& error) {
        ADD_FAILURE() << problem.key() << ", " << choice.text() << ": " << error.what();
      }
    return candidates.size();
  }

  std::shared_ptr<const runtime::Cudnn> library;
  std::unique_ptr<runtime::CudnnDescriptor> device;
  std::vector<std::string> why;
};

ConvCase residual_block(bool channels_last) {
  return {"",     channels_last, 8,      64,     64,
          1,      {56, 56},      {3, 3}, {1, 1}, {1, 1},
          {1, 1}, {1, 1},        true,   true,   fb::Activation::Relu};
}

TEST_F(RealCudnn, ResidualBlocksHaveEnginesInAllTypes) {
  for (const bool channels_last : {true, false})
    for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
      EXPECT_GT(engines(problem_of(residual_block(channels_last), type)), 1u)
          << to_string(type) << channels_last;
  EXPECT_GT(engines(problem_of(residual_block(true), DType::kFloat32, fb::MathMode::Tf32)), 4u);
}

TEST_F(RealCudnn, BiasAloneNoneOfBothAndOtherShapesHaveEngines) {
  ConvCase test = residual_block(true);
  test.residual = false;
  EXPECT_GT(engines(problem_of(test, DType::kFloat16)), 1u);
  test.activation = fb::Activation::None;
  EXPECT_GT(engines(problem_of(test, DType::kFloat16)), 1u);
  test.bias = false;
  EXPECT_GT(engines(problem_of(test, DType::kFloat16)), 1u);
  EXPECT_GT(engines(problem_of(test, DType::kFloat64)), 0u);
  const ConvCase others[] = {
      {"", true, 2, 80, 384, 1, {3000}, {3}, {1}, {1}, {1}, {1}, true},
      {"",
       true,
       2,
       32,
       32,
       1,
       {16, 16, 16},
       {3, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1},
       true},
      {"", true, 8, 3, 64, 1, {224, 224}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, true},
      {"", true, 8, 64, 64, 2, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"", true, 8, 64, 64, 64, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"", true, 8, 64, 64, 1, {56, 56}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, true},
      {"", true, 8, 64, 64, 1, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {1, 2}, true},
  };
  for (const ConvCase& other : others)
    for (const DType type : {DType::kFloat16, DType::kFloat32})
      EXPECT_GT(engines(problem_of(other, type)), 0u)
          << problem_of(other, type).key() << (why.empty() ? "" : why[0]);
}

TEST_F(RealCudnn, WhatIsNotSupportedSaysWhy) {
  const auto problem = problem_of(residual_block(true), DType::kFloat32);
  engines(problem);
  // Tensor cores take float32 as tf32, which nobody has allowed.
  EXPECT_THAT(why, Not(IsEmpty()));
}

}  // namespace
}  // namespace sinter::testing
