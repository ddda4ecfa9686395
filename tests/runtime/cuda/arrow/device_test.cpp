// SPDX-License-Identifier: Apache-2.0
// Record batches of a GPU's, and to one, over the fake driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/arrow.h>

#include "graphs/memory.h"
#include "runtime/session_access.h"
#include "tests/runtime/api/api_plans.h"
#include "tests/runtime/api/arrow_arrays.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// y[n] = 2 (x[n] + 1) on the fake GPU, and a batch of one column x = 1, 2, 3 in its memory.
class CudaArrowTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    context = graphs::Context::retain(fake().driver(), 0);
    memory = graphs::DeviceMemory(context, 4096);
    data = chain_plan();
    batch = batch_of(floats("x", {1, 2, 3}));
    values = reinterpret_cast<float*>(memory.address());
    for (int i = 0; i < 3; ++i) values[i] = static_cast<float>(i + 1);
    device.device_type = ARROW_DEVICE_CUDA;
    link();
  }
  void TearDown() override {
    memory = {};
    context.reset();
    CudaTest::TearDown();
  }
  Session make(Memory outputs = Memory::kHost) {
    SessionOptions options;
    options.output_memory = outputs;
    return SessionAccess::make(PlanAccess::make(data), options,
                               runtime::make_cuda_executor(environment(), data, options));
  }
  void link() {
    batch->children[0]->buffers[1] = values;
    batch->link();
    device.array = batch->array;
  }
  std::string refusal(Session& session, const BatchOptions& options = {}) {
    return usage_of([&] { bind_record_batch(session, batch->schema, device, options); });
  }

  std::shared_ptr<const plan::PlanData> data;
  graphs::ContextPtr context;
  graphs::DeviceMemory memory;
  float* values = nullptr;
  Tree batch;
  ArrowDeviceArray device{};
};

TEST_F(CudaArrowTest, HostColumnsGoToPinnedMemoryAtOnce) {
  Session session = make();
  const Tree host = batch_of(floats("x", {4, 5}));
  EXPECT_THAT(bind_record_batch(session, host->schema, host->array).in_place, IsEmpty());
  host->children[0]->memory[0].assign(8, std::byte{0});
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(10, 12));
  // Page-locked memory is the host's.
  const Tree pinned = batch_of(floats("x", {6}));
  const ArrowDeviceArray locked{pinned->array, 0, ARROW_DEVICE_CUDA_HOST, nullptr, {}};
  EXPECT_THAT(bind_record_batch(session, pinned->schema, locked).in_place, IsEmpty());
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(14));
}

TEST_F(CudaArrowTest, ADeviceColumnIsReadWhereItLies) {
  Session session = make();
  int event = 0;  // the fake driver takes any
  void* handle = &event;
  device.sync_event = &handle;
  fake().calls.clear();
  EXPECT_THAT(bind_record_batch(session, batch->schema, device).in_place, ElementsAre(0));
  EXPECT_EQ(fake().calls["cuEventSynchronize"], 1);
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(4, 6, 8));
  values[0] = 9;
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(20, 6, 8));
}

TEST_F(CudaArrowTest, WhatCannotBeReadOnTheDeviceIsRefused) {
  Session session = make();
  // The second element on: not aligned to 16 bytes.
  batch->children[0]->array.offset = 1;
  batch->children[0]->array.length = batch->array.length = 2;
  link();
  EXPECT_THAT(refusal(session), HasSubstr("16"));
  batch = batch_of(floats("x", {1, 2, 3}, {true, false, true}));
  link();
  EXPECT_THAT(refusal(session), AllOf(HasSubstr("has 1 nulls"), HasSubstr("fillna")));
  batch->children[0]->array.null_count = -1;
  EXPECT_THAT(refusal(session), HasSubstr("may have nulls"));
  batch = batch_of(numbers<double>("x", "g", {1, 2, 3}));
  link();
  BatchOptions cast;
  cast.cast = true;
  EXPECT_THAT(refusal(session, cast), HasSubstr("its type is not the input's"));
  batch = batch_of(floats("x", {1, 2, 3}), floats("z", {1, 2, 3}));
  link();
  BatchOptions options;
  options.copy = true;
  EXPECT_THAT(refusal(session, options), HasSubstr("no column is copied"));
}

TEST_F(CudaArrowTest, OutputsOnTheDeviceAreLent) {
  Session session = make(Memory::kDevice);
  bind_record_batch(session, batch->schema, device);
  session.run_async();
  ArrowSchema schema{};
  ArrowArray host{};
  EXPECT_THAT(usage_of([&] { export_outputs(session, &schema, &host); }),
              AllOf(HasSubstr("device memory"), HasSubstr("ArrowDeviceArray")));
  ArrowDeviceArray lent{};
  export_outputs(session, &schema, &lent);
  EXPECT_EQ(lent.device_type, ARROW_DEVICE_CUDA);
  EXPECT_EQ(lent.device_id, 0);
  EXPECT_EQ(lent.sync_event, nullptr);
  const auto* result = static_cast<const float*>(lent.array.children[0]->buffers[1]);
  EXPECT_EQ(result[2], 8);
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("is lent out"));
  // Into another session, as the input of the same plan.
  schema.children[0]->name = "x";
  Session next = make();
  bind_record_batch(next, schema, lent);
  next.run();
  EXPECT_THAT(next.output("y").as<float>(), ElementsAre(10, 14, 18));
  lent.array.release(&lent.array);
  schema.release(&schema);
  session.run();
}

}  // namespace
}  // namespace sinter::testing
