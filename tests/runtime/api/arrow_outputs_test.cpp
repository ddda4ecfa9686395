// SPDX-License-Identifier: Apache-2.0
// Outputs to record batches, on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/arrow.h>

#include "api_plans.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

template <typename T>
std::vector<T> elements(const ArrowArray& array) {
  const T* data = static_cast<const T*>(array.buffers[1]);
  return {data, data + array.length};
}

TEST(Arrow, OutputsOwnTheirMemory) {
  ArrowSchema schema{};
  ArrowArray array{};
  {
    Session session = copying({{"x", DType::kFloat32, 2}});
    EXPECT_THAT(usage_of([&] { export_output(session, 0, &schema, &array); }),
                HasSubstr("before a run"));
    EXPECT_EQ(array.release, nullptr);
    session.set_input("x", {2, 2}, std::vector<float>{1, 2, 3, 4});
    session.run();
    EXPECT_THAT(
        usage_of([&] { export_output(session, 0, &schema, static_cast<ArrowArray*>(nullptr)); }),
        HasSubstr("no structure"));
    export_output(session, 0, &schema, &array);
    session.set_input("x", {2, 2}, std::vector<float>(4));
    session.run();
  }
  EXPECT_STREQ(schema.format, "+w:2");
  EXPECT_STREQ(schema.name, "x_out");
  EXPECT_STREQ(schema.children[0]->format, "f");
  EXPECT_EQ(array.length, 2);
  EXPECT_EQ(array.null_count, 0);
  EXPECT_EQ(array.n_buffers, 1);
  EXPECT_THAT(elements<float>(*array.children[0]), ElementsAre(1, 2, 3, 4));
  // A child that is taken out lives on.
  ArrowArray child = *array.children[0];
  array.children[0]->release = nullptr;
  array.release(&array);
  schema.release(&schema);
  EXPECT_EQ(array.release, nullptr);
  EXPECT_EQ(schema.release, nullptr);
  EXPECT_THAT(elements<float>(child), ElementsAre(1, 2, 3, 4));
  child.release(&child);
}

TEST(Arrow, OutputsAsARecordBatchAndBack) {
  const std::vector<InputSpec> all = {{"f"}, {"m", DType::kInt16, 3}, {"b", DType::kBool}};
  Session session = copying(all);
  const std::vector<bool> bits = {true, false, true, true, false, false, true, false, true};
  std::vector<std::uint8_t> plain(bits.begin(), bits.end());
  session.set_input(0, {9}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  session.set_input(1, {9, 3}, std::vector<std::int16_t>(27, 5));
  session.set_input(2, {9}, std::as_bytes(std::span(plain)), DType::kBool);
  session.run();
  ArrowSchema schema{};
  ArrowArray batch{};
  export_outputs(session, &schema, &batch);
  EXPECT_STREQ(schema.format, "+s");
  EXPECT_EQ(schema.n_children, 3);
  EXPECT_EQ(batch.length, 9);
  EXPECT_STREQ(schema.children[2]->format, "b");
  Session other = copying(all);
  BatchOptions options;
  for (const auto& spec : all) options.inputs.push_back({spec.name, {spec.name + "_out"}, ""});
  EXPECT_THAT(bind_record_batch(other, schema, batch, options).in_place, SizeIs(2));
  EXPECT_THAT(result<float>(other), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(result<bool>(other, 2),
              ElementsAre(true, false, true, true, false, false, true, false, true));
  schema.release(&schema);
  batch.release(&batch);
  ArrowDeviceArray device{};
  export_outputs(other, &schema, &device);
  EXPECT_EQ(device.device_type, ARROW_DEVICE_CPU);
  EXPECT_EQ(device.sync_event, nullptr);
  device.array.release(&device.array);
  schema.release(&schema);
}

TEST(Arrow, OutputsThatAreNoColumnsOfABatch) {
  PlanBuilder p;
  const Id n = p.symbol("n");
  const Id x = p.input("x", DType::kBFloat16, {n});
  const Id y = p.output("y", DType::kBFloat16, {n});
  p.copy("copy", x, y, p.mul(n, p.constant(2)));
  Session session(p.build(), on_one_thread());
  session.set_input("x", {2}, std::vector<BFloat16>(2));
  session.run();
  ArrowSchema schema{};
  ArrowArray array{};
  EXPECT_THAT(usage_of([&] { export_output(session, 0, &schema, &array); }),
              AllOf(HasSubstr("output 'y' is bf16"), HasSubstr("DLPack")));
  EXPECT_EQ(schema.release, nullptr);

  PlanBuilder q;
  const Id m = q.symbol("m"), two = q.constant(2);
  const Id a = q.input("a", DType::kFloat32, {m});
  const Id b = q.input("b", DType::kFloat32, {two, m});
  q.copy("a", a, q.output("a_out", DType::kFloat32, {m}), q.mul(m, q.constant(4)));
  q.copy("b", b, q.output("b_out", DType::kFloat32, {two, m}), q.mul(m, q.constant(8)));
  Session other(q.build(), on_one_thread());
  other.set_input("a", {3}, std::vector<float>(3));
  other.set_input("b", {2, 3}, std::vector<float>(6));
  other.run();
  EXPECT_THAT(usage_of([&] { export_outputs(other, &schema, &array); }),
              AllOf(HasSubstr("output 'b_out' has the shape [2, 3]"), HasSubstr("3 rows")));
  EXPECT_EQ(array.release, nullptr);
}

}  // namespace
}  // namespace sinter::testing
