// SPDX-License-Identifier: Apache-2.0
// Plans with kernels, and a session's executor over the fake driver and library.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/binding.h"
#include "runtime/cuda/cuda_executor.h"
#include "tests/graphs/fake_driver.h"
#include "tests/runtime/cuda/fake_cublaslt.h"
#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::kInternal, "");
}

/// A PlanBuilder for the GPU: one module that holds all kernels, for every architecture.
class CudaPlanBuilder : public PlanBuilder {
 public:
  explicit CudaPlanBuilder(std::vector<std::string> architectures = {"sm_90"}) {
    meta.target = "cuda";
    meta.cuda_version = 13000;
    meta.architectures = std::move(architectures);
    for (const std::string& architecture : meta.architectures) {
      auto module = std::make_unique<fb::ModuleT>();
      module->target = architecture;
      module->name = "kernels_" + architecture;
      module->size = 5;
      meta.modules.push_back(std::move(module));
    }
  }

  static std::unique_ptr<fb::KernelVariantT> variant(const std::string& function, Id grid,
                                                     std::vector<fb::Condition> conditions,
                                                     Id one) {
    auto result = std::make_unique<fb::KernelVariantT>();
    result->function = function;
    result->grid = {grid, one, one};
    result->block = {128, 1, 1};
    result->conditions = std::move(conditions);
    return result;
  }

  /// A step with one unconditional variant; buffers come first among the arguments.
  void kernel(const std::string& name, const std::string& function, std::vector<Id> reads,
              std::vector<Id> writes, std::vector<fb::KernelArg> more = {}) {
    fb::KernelStepT work;
    work.variants.push_back(variant(function, constant(1), {}, constant(1)));
    kernel(name, std::move(work), std::move(reads), std::move(writes), std::move(more));
  }
  void kernel(const std::string& name, fb::KernelStepT work, std::vector<Id> reads,
              std::vector<Id> writes, std::vector<fb::KernelArg> more = {}) {
    for (const auto* ids : {&reads, &writes})
      for (const Id id : *ids) work.args.emplace_back(fb::ArgKind::Buffer, id);
    work.args.insert(work.args.end(), more.begin(), more.end());
    auto step = std::make_unique<fb::StepT>();
    step->name = name;
    step->bytes_read = step->bytes_written = step->flops = constant(8);
    step->reads = std::move(reads);
    step->writes = std::move(writes);
    step->work.Set(std::move(work));
    meta.steps.push_back(std::move(step));
  }

  std::shared_ptr<const plan::PlanData> data() {
    static constexpr std::array<std::byte, 5> image{std::byte{'c'}, std::byte{'u'}, std::byte{'b'},
                                                    std::byte{'i'}, std::byte{'n'}};
    plan::PlanParts made = parts();
    made.modules.push_back({0, image, nullptr});
    return plan::parse_plan(plan::serialize_plan(made));
  }
};

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    fake_cublaslt().reset();
    // y[i] = x[i] + 1 for n elements.
    fake().kernels["add_one"] = {3, [](const CUlaunchConfig&, const auto& v) {
                                   for (std::uint64_t i = 0; i < v[2]; ++i)
                                     reinterpret_cast<float*>(v[1])[i] =
                                         reinterpret_cast<const float*>(v[0])[i] + 1;
                                 }};
    fake().kernels["double"] = {3, [](const CUlaunchConfig&, const auto& v) {
                                  for (std::uint64_t i = 0; i < v[2]; ++i)
                                    reinterpret_cast<float*>(v[1])[i] =
                                        reinterpret_cast<const float*>(v[0])[i] * 2;
                                }};
  }
  void TearDown() override {
    executor.reset();
    EXPECT_EQ(fake().alive(), 0);
    EXPECT_EQ(fake_cublaslt().alive(), 0);
  }

  /// y[n] = 2 * (x[n] + 1) through an arena buffer.
  static std::shared_ptr<const plan::PlanData> chain_plan(std::vector<std::string> architectures = {
                                                              "sm_90"}) {
    return chain_builder(std::move(architectures)).data();
  }
  /// The same, to be changed first.
  static CudaPlanBuilder chain_builder(std::vector<std::string> architectures = {"sm_90"}) {
    CudaPlanBuilder builder(std::move(architectures));
    const Id n = builder.symbol("n");
    const Id x = builder.input("x", DType::kFloat32, {n});
    const Id t = builder.arena(DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    builder.kernel("first", "add_one", {x}, {t}, {{fb::ArgKind::Int64, n}});
    builder.kernel("second", "double", {t}, {y}, {{fb::ArgKind::Int64, n}});
    return builder;
  }

  /// A machine without cuDNN; tests of convolutions say otherwise.
  virtual runtime::CudaEnvironment environment() const {
    return {&fake().driver(), &load_fake_cublaslt, &no_cudnn};
  }
  static std::shared_ptr<const runtime::Cudnn> no_cudnn() {
    throw Error(ErrorCode::kDevice, "there is no cuDNN in this test");
  }

  void open(std::shared_ptr<const plan::PlanData> data, SessionOptions options = {}) {
    executor.reset();
    plan = std::move(data);
    executor = runtime::make_cuda_executor(environment(), plan, options);
    shapes = std::make_unique<runtime::BoundShapeCache>(plan, 64);
  }

  std::shared_ptr<const runtime::BoundShape> bound(std::vector<std::int64_t> symbols) {
    return shapes->get(symbols);
  }

  void set_input(std::size_t index, const std::vector<float>& values,
                 std::vector<std::int64_t> shape) {
    executor->set_input(
        index, TensorView{DType::kFloat32, std::move(shape), values.data(), Memory::kHost});
  }

  void run(std::vector<std::int64_t> symbols, void* stream = nullptr) {
    const auto shape = bound(std::move(symbols));
    executor->prepare(shape);
    executor->run(shape, stream);
    executor->await();
  }

  std::vector<float> output(std::size_t index = 0) const {
    const TensorView view = executor->output(index);
    const auto* values =
        static_cast<const float*>(view.data);  // memory of the fake GPU is the host's
    return {values, values + view.element_count()};
  }

  std::shared_ptr<const plan::PlanData> plan;
  std::unique_ptr<runtime::BoundShapeCache> shapes;
  std::unique_ptr<runtime::Executor> executor;
};

}  // namespace sinter::testing
