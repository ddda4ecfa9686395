// SPDX-License-Identifier: Apache-2.0
// Record batches in host and device memory, in and out of a real GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/arrow.h>
#include <sinter/devices.h>

#include "ir/text/text.h"
#include "tests/gpu/support.h"
#include "tests/runtime/api/arrow_arrays.h"

namespace sinter::gpu_test {
namespace {

using sinter::testing::batch_of;
using sinter::testing::floats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan doubling(const char* shape) {
  return compile(ir::parse_graph(fmt::format(R"(graph @main(%x: f32[{}]) ranges {{n: 1..100000}} {{
  %y = Add(%x, %x)
  return y = %y
}})",
                                             shape)),
                 true);
}

TEST(Arrow, ColumnsOfTheHostBecomeRowsOnTheGpu) {
  constexpr std::int64_t kRows = 70'001;
  Session session(doubling("n, 3"));
  std::vector<float> values[3];
  std::vector<bool> valid(kRows);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (int c = 0; c < 3; ++c) values[c].push_back(static_cast<float>(3 * r + c));
    valid[static_cast<std::size_t>(r)] = r % 7 != 0;
  }
  const auto batch =
      batch_of(floats("a", values[0]), floats("b", values[1], valid), floats("c", values[2]));
  BatchOptions options;
  options.inputs.push_back({"x", {"a", "b", "c"}, ""});
  options.nulls = Nulls::kNaN;
  for (int i = 0; i < 2; ++i) {  // captured, and replayed
    bind_record_batch(session, batch->schema, batch->array, options);
    session.run();
    const auto found = session.output("y").as<float>();
    std::int64_t wrong = 0;
    for (std::int64_t k = 0; k < 3 * kRows; ++k) {
      const float value = found[static_cast<std::size_t>(k)];
      const bool is_null = k % 3 == 1 && k / 3 % 7 == 0;
      wrong += is_null ? value == value : value != static_cast<float>(2 * k);
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Arrow, ADeviceColumnIsReadWhereItLiesAndOutputsAreLent) {
  SessionOptions options;
  options.output_memory = Memory::kDevice;
  Session session(doubling("n"), options);
  DeviceBuffer memory(0, 64);
  const std::vector<float> values = {1, 2, 3};
  memory.copy_from_host(values.data(), 12);
  const auto batch = batch_of(floats("x", values));
  batch->children[0]->buffers[1] = memory.data();
  ArrowDeviceArray device{batch->array, 0, ARROW_DEVICE_CUDA, nullptr, {}};
  EXPECT_THAT(bind_record_batch(session, batch->schema, device).in_place, ElementsAre(0));
  session.run_async();
  ArrowSchema schema{};
  ArrowDeviceArray lent{};
  export_outputs(session, &schema, &lent);
  EXPECT_EQ(lent.device_type, ARROW_DEVICE_CUDA);
  try {
    session.run();
    ADD_FAILURE() << "a run while outputs are lent";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("lent out"));
  }
  // What was lent is the input of another session.
  schema.children[0]->name = "x";
  Session next(doubling("n"));
  bind_record_batch(next, schema, lent);
  next.run();
  EXPECT_THAT(next.output("y").as<float>(), ElementsAre(4, 8, 12));
  lent.array.release(&lent.array);
  schema.release(&schema);
  session.run();
}

}  // namespace
}  // namespace sinter::gpu_test
