// SPDX-License-Identifier: Apache-2.0
// Loops and branches that data decide, on the fake GPU: conditional nodes, and the host where there
// are none.
#include <algorithm>
#include <cstdint>

#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
T& at(std::uint64_t address) {
  return *reinterpret_cast<T*>(address);
}

/// What count_iteration.ptx.inc says, on the host.
bool next_iteration(const std::vector<std::uint64_t>& v) {
  const std::int64_t number = v[6] ? at<std::int64_t>(v[0]) + 1 : 0;
  at<std::int64_t>(v[0]) = number;
  const auto trips = static_cast<std::int64_t>(v[1]);
  if (trips >= 0 && number >= trips) return false;
  if (v[2] != 0 && at<std::uint8_t>(v[2]) == 0) return false;
  if (++at<std::int64_t>(v[3]) <= static_cast<std::int64_t>(v[4])) return true;
  if (at<std::uint64_t>(v[3] + 8) == 0) at<std::uint64_t>(v[3] + 8) = v[5];
  return false;
}

class ControlFlowTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake().kernels["sinter_count_iteration"] = {
        7, [](const auto&, const auto& v) { at<std::uint32_t>(v[3] + 16) = next_iteration(v); }};
    fake().kernels["sinter_set_iteration"] = {
        8, [](const auto&, const auto& v) { fake().conditions[v[7]] = next_iteration(v); }};
    fake().kernels["sinter_set_branch"] = {3, [](const auto&, const auto& v) {
                                             fake().conditions[v[2]] =
                                                 at<std::uint8_t>(v[0]) == v[1];
                                           }};
    // Doubles x, adds the number of the iteration, and says whether that is below 100.
    fake().kernels["step"] = {3, [](const auto&, const auto& v) {
                                at<float>(v[1]) = 2 * at<float>(v[1]) +
                                                  static_cast<float>(at<std::int64_t>(v[0]));
                                at<std::uint8_t>(v[2]) = at<float>(v[1]) < 100;
                              }};
    fake().kernels["below"] = {
        2, [](const auto&, const auto& v) { at<std::uint8_t>(v[1]) = at<float>(v[0]) < 100; }};
    fake().kernels["add"] = {
        2, [](const auto&, const auto& v) { at<float>(v[1]) = at<float>(v[0]) + 1; }};
    fake().kernels["negate"] = {
        2, [](const auto&, const auto& v) { at<float>(v[1]) = -at<float>(v[0]); }};
  }

  struct Builder : CudaPlanBuilder {
    void control(const std::string& name, fb::WorkUnion work, std::vector<Id> reads,
                 std::vector<Id> writes) {
      auto step = std::make_unique<fb::StepT>();
      step->name = name;
      step->bytes_read = step->bytes_written = step->flops = constant(0);
      step->reads = std::move(reads);
      step->writes = std::move(writes);
      step->work = std::move(work);
      meta.steps.push_back(std::move(step));
    }
    void loop(std::uint32_t steps, std::int32_t trips, std::int32_t condition, Id counter,
              std::vector<Id> states) {
      fb::WhileStepT work;
      work.steps = steps;
      work.trips = trips;
      work.condition = condition;
      work.counter = counter;
      fb::WorkUnion united;
      united.Set(std::move(work));
      std::vector<Id> writes = states;
      writes.push_back(counter);
      control("loop", std::move(united), std::move(states), std::move(writes));
    }
    void branch(Id condition, std::uint32_t then_steps, std::uint32_t else_steps,
                std::vector<Id> reads, std::vector<Id> writes) {
      fb::IfStepT work;
      work.condition = condition;
      work.then_steps = then_steps;
      work.else_steps = else_steps;
      fb::WorkUnion united;
      united.Set(std::move(work));
      reads.push_back(condition);
      control("branch", std::move(united), std::move(reads), std::move(writes));
    }
  };

  /// y = x, doubled while it is below 100, or as often as `lengths` has elements.
  static std::shared_ptr<const plan::PlanData> doubling(bool counted = false) {
    Builder b;
    const Id one = b.constant(1), n = b.symbol("n", 0, 100000);
    const Id x = b.input("x", DType::kFloat32, {one});
    b.input("lengths", DType::kFloat32, {n});
    const Id y = b.output("y", DType::kFloat32, {one});
    const Id flag = b.arena(DType::kBool, {one}), number = b.arena(DType::kInt64, {one});
    b.copy("copy", x, y, b.constant(4));
    b.kernel("first", "below", {x}, {flag});
    b.loop(1, counted ? static_cast<std::int32_t>(n) : -1,
           counted ? -1 : static_cast<std::int32_t>(flag), number, {y, flag});
    b.kernel("body", "step", {number}, {y, flag});
    return b.data();
  }

  /// y = -(x + 1) if x is below 100, else -x.
  static std::shared_ptr<const plan::PlanData> branches() {
    Builder b;
    const Id one = b.constant(1);
    const Id x = b.input("x", DType::kFloat32, {one});
    const Id y = b.output("y", DType::kFloat32, {one});
    const Id t = b.arena(DType::kFloat32, {one});
    const Id flag = b.arena(DType::kBool, {one});
    b.kernel("first", "below", {x}, {flag});
    b.branch(flag, 2, 1, {x}, {y});
    b.kernel("then", "add", {x}, {t});
    b.kernel("then", "negate", {t}, {y});
    b.kernel("else", "negate", {x}, {y});
    return b.data();
  }

  float value(float x, std::int64_t n = 0) {
    set_input(0, {x}, {1});
    if (plan->meta.inputs.size() > 1)
      set_input(1, std::vector<float>(static_cast<std::size_t>(n)), {n});
    run(plan->meta.symbols.empty() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{n});
    return output()[0];
  }
};

TEST_F(ControlFlowTest, ALoopThatEndsOnDataIsAConditionalNode) {
  open(doubling());
  EXPECT_EQ(value(3), 122);  // 6, 13, 28, 59, 122: numbers 0 to 4 are added
  EXPECT_EQ(value(60), 120);
  EXPECT_EQ(value(200), 200);
  EXPECT_EQ(fake().calls["cuGraphAddNode_v2"], 1);  // captured once
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 3);
}

TEST_F(ControlFlowTest, WithoutSuchNodesTheHostReadsTheConditionBack) {
  fake().conditional_nodes = false;
  open(doubling());
  EXPECT_EQ(value(3), 122);
  EXPECT_EQ(value(200), 200);
  EXPECT_EQ(fake().calls["cuGraphAddNode_v2"], 0);
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 5);  // the body, captured once
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 1);
}

TEST_F(ControlFlowTest, WithoutGraphsTheHostReadsTheConditionBack) {
  SessionOptions options;
  options.cuda_graphs = false;
  open(doubling(), options);
  EXPECT_EQ(value(3), 122);
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 0);
}

TEST_F(ControlFlowTest, TooManyIterationsAreOneError) {
  for (const bool conditional_nodes : {true, false}) {
    fake().conditional_nodes = conditional_nodes;
    SessionOptions options;
    options.max_iterations = 50;
    open(doubling(), options);
    const Error error = error_of([&] { value(-100); });  // it never ends
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step 'loop'"), HasSubstr("have run 50 iterations"),
                                    HasSubstr("SessionOptions::max_iterations")));
    EXPECT_EQ(value(60), 120);  // the session goes on
    executor.reset();
    fake().calls.clear();
  }
}

TEST_F(ControlFlowTest, AShortCountedLoopIsCapturedAndALongOneIsNot) {
  open(doubling(true));
  EXPECT_EQ(value(1, 3), 8 + 4);  // 0, 1 and 2 are added
  EXPECT_EQ(fake().calls["cuGraphAddNode_v2"], 0);
  value(0, 60000);
  EXPECT_EQ(fake().calls["cuGraphAddNode_v2"], 1);
  EXPECT_EQ(std::ranges::count(fake().launched, "step"), 3 + 60000);
}

TEST_F(ControlFlowTest, OneOfTwoBranchesIsRun) {
  for (const bool conditional_nodes : {true, false}) {
    fake().conditional_nodes = conditional_nodes;
    open(branches());
    fake().launched.clear();
    EXPECT_EQ(value(3), -4);
    EXPECT_EQ(value(300), -300);
    EXPECT_EQ(std::ranges::count(fake().launched, "add"), 1);
    EXPECT_EQ(std::ranges::count(fake().launched, "negate"), 2);
    executor.reset();
  }
}

}  // namespace
}  // namespace sinter::testing
