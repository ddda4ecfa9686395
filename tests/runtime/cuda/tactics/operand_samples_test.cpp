// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/operand_samples.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include <gmock/gmock.h>

#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class OperandSamplesTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    context = graphs::Context::retain(fake().driver(), 0);
    samples.emplace(context);
    scope.emplace(*context);
  }
  void TearDown() override {
    scope.reset();
    samples.reset();
    context.reset();
    CudaTest::TearDown();
  }

  template <typename T>
  static std::vector<T> values_of(const graphs::DeviceMemory& memory) {
    std::vector<T> values(memory.size() / sizeof(T));
    std::memcpy(values.data(), reinterpret_cast<const void*>(memory.address()), memory.size());
    return values;
  }

  graphs::ContextPtr context;
  std::optional<graphs::Context::Scope> scope;
  std::optional<runtime::OperandSamples> samples;
};

TEST_F(OperandSamplesTest, NumbersAreFiniteInEachTypeAndDiffer) {
  const graphs::DeviceMemory memory(context, (1u << 20) + 12);  // more than the pattern, and a part
  std::memset(reinterpret_cast<void*>(memory.address()), 0xff, memory.size());
  samples->set({{memory.address(), memory.size(), true}});
  samples->fill(nullptr);
  for (const float value : values_of<float>(memory)) {
    ASSERT_GE(std::abs(value), std::ldexp(1.0f, -15));
    ASSERT_LT(std::abs(value), 2);
  }
  for (const std::uint16_t half : values_of<std::uint16_t>(memory))
    ASSERT_TRUE((half & 0x7fff) >= 0x3800 && (half & 0x7fff) < 0x4000) << half;
  for (const std::uint8_t byte : values_of<std::uint8_t>(memory))
    ASSERT_TRUE((byte & 0x7f) < 0x7c) << int{byte};  // e5m2 infinite, e4m3 from 416
  const auto halves = values_of<std::uint16_t>(memory);
  EXPECT_GT(std::set(halves.begin(), halves.end()).size(), 1000u);
}

TEST_F(OperandSamplesTest, WhatMayBeIndicesIsZero) {
  const graphs::DeviceMemory memory(context, 64);
  std::memset(reinterpret_cast<void*>(memory.address()), 0xff, memory.size());
  samples->set({{memory.address(), memory.size(), false}});
  samples->fill(nullptr);
  EXPECT_THAT(values_of<std::int64_t>(memory), Each(0));
}

TEST_F(OperandSamplesTest, IndicesAscendToTheirLast) {
  const graphs::DeviceMemory offsets(context, 5 * sizeof(std::int32_t)),
      rows(context, 3 * sizeof(std::int64_t)), one(context, sizeof(std::int32_t));
  samples->set({{offsets.address(), offsets.size(), false, 4, 10},
                {rows.address(), rows.size(), false, 8, INT32_MAX},
                {one.address(), one.size(), false, 4, 10}});
  samples->fill(nullptr);
  EXPECT_THAT(values_of<std::int32_t>(offsets), ElementsAre(0, 2, 5, 7, 10));
  EXPECT_THAT(values_of<std::int64_t>(rows), ElementsAre(0, INT32_MAX / 2, INT32_MAX));
  EXPECT_THAT(values_of<std::int32_t>(one), ElementsAre(0));
}

TEST_F(OperandSamplesTest, AStepIsFilledOnce) {
  const graphs::DeviceMemory memory(context, 64);
  samples->set({{memory.address(), memory.size(), true}});
  samples->fill(nullptr);
  std::memset(reinterpret_cast<void*>(memory.address()), 0, memory.size());
  samples->fill(nullptr);
  EXPECT_THAT(values_of<std::int64_t>(memory), Each(0));
}

}  // namespace
}  // namespace sinter::testing
