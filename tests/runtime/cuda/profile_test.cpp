// SPDX-License-Identifier: Apache-2.0
// Profiles over the fake driver, whose clock says what takes how long.
#include "runtime/cuda/peak_rates.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProfileTest : public CudaTest {
 protected:
  void run_one() {
    set_input(0, {1}, {1});
    run({1});
  }
};

TEST_F(ProfileTest, StepsSayTimeWorkAndKernel) {
  fake().kernels["double"].registers = 128;
  fake().kernels["double"].local_bytes = 24;
  fake().kernels["double"].static_shared_bytes = 256;
  CudaPlanBuilder builder = chain_builder();
  fb::StepT& second = *builder.meta.steps[1];
  second.origins = {"scale", "shift"};
  second.arithmetic = fb::Arithmetic::Half;
  fb::KernelVariantT& variant = *second.work.AsKernelStep()->variants[0];
  variant.grid = {builder.constant(6), builder.constant(2), builder.constant(1)};
  variant.shared_bytes = 1000;
  variant.schedule = "row threads=32x4";
  open(builder.data());
  EXPECT_EQ(error_of([&] { executor->profile(); }).code(), ErrorCode::kUsage);
  run_one();
  const auto profile = executor->profile();
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[0].arithmetic, "Scalar");
  EXPECT_EQ(profile[1].name, "second");
  EXPECT_EQ(profile[1].arithmetic, "Half");
  EXPECT_THAT(profile[1].origins, ElementsAre("scale", "shift"));
  EXPECT_EQ(profile[1].bytes, 16u);
  EXPECT_EQ(profile[1].flops, 8u);
  EXPECT_NEAR(profile[1].microseconds, 10, 1e-3);
  ASSERT_EQ(profile[1].parts.size(), 1u);
  const PartTime& part = profile[1].parts[0];
  EXPECT_EQ(part.name, "double");
  EXPECT_EQ(part.launches, 1u);
  EXPECT_NEAR(part.microseconds, 10, 1e-3);
  ASSERT_TRUE(part.kernel);
  EXPECT_EQ(part.kernel->blocks, 12u);
  EXPECT_EQ(part.kernel->threads, 128u);
  EXPECT_EQ(part.kernel->registers, 128u);
  EXPECT_EQ(part.kernel->spilled_bytes, 24u);
  EXPECT_EQ(part.kernel->shared_bytes, 1256u);
  EXPECT_EQ(part.kernel->resident_blocks, 4u);
  EXPECT_DOUBLE_EQ(part.kernel->occupancy, 0.25);
  EXPECT_EQ(part.kernel->schedule, "row threads=32x4");
  run_one();
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(ProfileTest, TheTimersOwnTimeIsTakenOff) {
  fake().event_time = 3;
  open(chain_plan());
  run_one();
  for (const StepTime& step : executor->profile()) EXPECT_NEAR(step.microseconds, 10, 1e-3);
}

TEST_F(ProfileTest, PartsOfAStepAreTimedEach) {
  fake().kernels["add_one"].body = [body = fake().kernels["add_one"].body](const auto& config,
                                                                           const auto& values) {
    fake().clock += 5;
    body(config, values);
  };
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n");
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id t = builder.arena(DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  fb::TacticStepT choice;
  choice.tactics.push_back(std::make_unique<fb::TacticT>());
  choice.tactics[0]->name = "alone";
  for (const auto& [function, from, to] :
       {std::tuple("add_one", x, t), std::tuple("double", t, y)}) {
    builder.kernel("part", function, {from}, {to}, {{fb::ArgKind::Int64, n}});
    auto part = std::make_unique<fb::PartT>();
    part->work = std::move(builder.meta.steps.back()->work);
    builder.meta.steps.pop_back();
    choice.tactics[0]->parts.push_back(std::move(part));
  }
  auto step = std::make_unique<fb::StepT>();
  step->name = "both";
  step->bytes_read = step->bytes_written = step->flops = builder.constant(8);
  step->reads = {x};
  step->writes = {t, y};
  step->work.Set(std::move(choice));
  builder.meta.steps.push_back(std::move(step));
  open(builder.data());
  run_one();
  const auto profile = executor->profile();
  ASSERT_EQ(profile.size(), 1u);
  EXPECT_EQ(profile[0].how, "alone");
  ASSERT_EQ(profile[0].parts.size(), 2u);
  EXPECT_EQ(profile[0].parts[0].name, "add_one");
  EXPECT_NEAR(profile[0].parts[0].microseconds, 15, 1e-3);
  EXPECT_NEAR(profile[0].parts[1].microseconds, 10, 1e-3);
  EXPECT_NEAR(profile[0].microseconds, 25, 1e-3);
}

TEST_F(ProfileTest, TheMachineIsMeasured) {
  fake().copy_microseconds_per_megabyte = 4;  // 2 MiB read and written
  fake().fill_time = 2;
  fake().event_time = 1;
  open(chain_plan());
  run_one();
  const auto alive = fake().device_bytes();
  const MachineRates rates = executor->measure_rates();
  EXPECT_EQ(fake().device_bytes(), alive);
  EXPECT_EQ(rates.machine, "Fake GPU");
  EXPECT_EQ(rates.copy_bytes, 32u << 20);  // 16 times the L2, read and written
  // The event behind a copy is in its time: 64 us for the copy, 1 for the event.
  EXPECT_NEAR(rates.copy_bytes_per_second, (32 << 20) / 65e-6, 1e8);
  EXPECT_NEAR(rates.empty_step_microseconds, 2, 1e-3);
  EXPECT_THAT(rates.timing, HasSubstr("an event behind each kernel"));
  EXPECT_THAT(rates.operations_from, HasSubstr("sm_90: 132 multiprocessors at 1.00 GHz"));
  EXPECT_DOUBLE_EQ(rates.operations_per_second.at("Half"), 4096 * 132e9);
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(ProfileTest, TheCopyTakesTheMemoryThatIsThere) {
  fake().l2_bytes = 8 << 20;
  fake().total_memory = 200u << 20;
  open(chain_plan());
  run_one();
  EXPECT_EQ(executor->measure_rates().copy_bytes, 128u << 20);
}

TEST(PeakRates, AreThoseOfTheArchitecture) {
  graphs::DeviceProperties gpu;
  gpu.multiprocessors = 10;
  gpu.clock_hz = 1e9;
  const auto half = [&](int major, int minor) {
    gpu.major = major;
    gpu.minor = minor;
    return runtime::peak_rates(gpu).at("Half");
  };
  EXPECT_DOUBLE_EQ(half(8, 0), 2048e10);
  EXPECT_DOUBLE_EQ(half(8, 7), 512e10);  // as 8.6
  EXPECT_DOUBLE_EQ(half(9, 0), 4096e10);
  EXPECT_DOUBLE_EQ(half(10, 3), 8192e10);
  gpu.major = 7;
  EXPECT_TRUE(runtime::peak_rates(gpu).empty());
}

}  // namespace
}  // namespace sinter::testing
