// SPDX-License-Identifier: Apache-2.0
// States of plans on a GPU: memory that stays on the device.
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::ElementsAre;

class CudaStateTest : public CudaTest {
 protected:
  /// s = s + 1, y = 2 s.
  static std::shared_ptr<const plan::PlanData> counting_plan() {
    CudaPlanBuilder builder;
    const Id n = builder.symbol("n");
    builder.input("x", DType::kFloat32, {n});
    const Id s = builder.state("s", DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    builder.kernel("count", "add_one_in_place", {}, {s}, {{fb::ArgKind::Int64, n}});
    builder.kernel("result", "double", {s}, {y}, {{fb::ArgKind::Int64, n}});
    return builder.data();
  }

  void SetUp() override {
    CudaTest::SetUp();
    fake().kernels["add_one_in_place"] = {2, [](const CUlaunchConfig&, const auto& v) {
                                            for (std::uint64_t i = 0; i < v[1]; ++i)
                                              reinterpret_cast<float*>(v[0])[i] += 1;
                                          }};
  }

  std::vector<float> state() {
    const TensorView view = executor->state(0, {3});
    EXPECT_EQ(view.memory, Memory::kHost);
    const auto values = view.as<float>();
    return {values.begin(), values.end()};
  }
};

TEST_F(CudaStateTest, StayOnTheDevice) {
  open(counting_plan());
  set_input(0, {0, 0, 0}, {3});
  run({3});
  EXPECT_THAT(output(1), ElementsAre(2, 2, 2));  // from zeros
  fake().calls.clear();
  run({3});
  run({3});
  EXPECT_THAT(output(1), ElementsAre(6, 6, 6));
  // Neither bound again nor moved: a run is one launch.
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 2);
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 0);
  EXPECT_THAT(state(), ElementsAre(3, 3, 3));
}

TEST_F(CudaStateTest, AreWrittenAndReset) {
  open(counting_plan());
  set_input(0, {0, 0, 0}, {3});
  set_input(1, {5, 6, 7}, {3});
  run({3});
  EXPECT_THAT(state(), ElementsAre(6, 7, 8));
  executor->reset_states();
  run({3});
  EXPECT_THAT(state(), ElementsAre(1, 1, 1));
}

TEST_F(CudaStateTest, AreThoseOfAllEntryPoints) {
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n");
  builder.input("x", DType::kFloat32, {n});
  const Id s = builder.state("s", DType::kFloat32, {builder.constant(3)});
  const Id y = builder.output("y", DType::kFloat32, {n});
  builder.kernel("count", "add_one_in_place", {}, {s}, {{fb::ArgKind::Int64, builder.constant(3)}});
  builder.kernel("few", "double", {s}, {y}, {{fb::ArgKind::Int64, n}});
  builder.kernel("many", "double", {s}, {y}, {{fb::ArgKind::Int64, n}});
  // Up to two elements it counts; three only look.
  for (const auto& [name, least, most, first, count] :
       {std::tuple("few", 1, 2, 0U, 2U), std::tuple("many", 3, 3, 2U, 1U)}) {
    auto entry = std::make_unique<fb::EntryT>();
    entry->name = name;
    entry->limits.emplace_back(0, least, most);
    entry->first_step = first;
    entry->step_count = count;
    builder.meta.entries.push_back(std::move(entry));
  }
  open(builder.data());
  set_input(0, {0, 0}, {2});
  run({2});
  EXPECT_EQ(executor->launches(), 2u);
  EXPECT_THAT(output(1), ElementsAre(2, 2));
  set_input(0, {0, 0, 0}, {3});
  run({3});
  EXPECT_EQ(executor->launches(), 1u);
  EXPECT_THAT(output(1), ElementsAre(2, 2, 2));
  fake().calls.clear();
  run({2});
  run({3});
  EXPECT_THAT(output(1), ElementsAre(4, 4, 4));
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 2);
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 0);
}

TEST_F(CudaStateTest, AreNoPartOfTransfers) {
  open(counting_plan());
  set_input(0, {0, 0, 0}, {3});
  run({3});
  EXPECT_THAT(executor->output(0).shape, ElementsAre());
  EXPECT_EQ(executor->memory().io, 256u + 256u + 12u);  // x, y and s
}

}  // namespace
}  // namespace sinter::testing
