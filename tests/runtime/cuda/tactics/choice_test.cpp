// SPDX-License-Identifier: Apache-2.0
// Steps with tactics: which one runs, on which GPU, what it is launched with, and what the
// reader refuses.
#include <fstream>
#include <limits>

#include <unistd.h>

#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kAny = std::numeric_limits<std::int64_t>::max();

std::unique_ptr<fb::PartT> part(fb::WorkUnion work) {
  auto result = std::make_unique<fb::PartT>();
  result->work = std::move(work);
  return result;
}

/// y[n] = 2 * (x[n] + 1), by "both" in clusters for n <= 100, else by two kernels over scratch.
struct ChoicePlan {
  CudaPlanBuilder builder;
  Id n, x, y, scratch;

  /// `with_product`: behind the choice a product of the library, so that there is a tuning cache.
  explicit ChoicePlan(bool with_product = false)
      : builder({"sm_80", "sm_90"}), n(builder.symbol("n")) {
    x = builder.input("x", DType::kFloat32, {n});
    y = builder.output("y", DType::kFloat32, {n});
    scratch = builder.arena(DType::kFloat32, {n});
    fb::TacticStepT choice;
    choice.tactics.push_back(std::make_unique<fb::TacticT>());
    choice.tactics.push_back(std::make_unique<fb::TacticT>());
    fb::TacticT &both = *choice.tactics[0], &two = *choice.tactics[1];
    both.name = "both";
    both.conditions = {{n, 1, 100}};
    both.parts.push_back(part(kernel("both", {x, y})));
    auto& variant = *both.parts[0]->work.AsKernelStep()->variants[0];
    variant.cluster = 2;
    variant.programmatic_launch = true;
    variant.grid[0] = builder.constant(4);
    two.name = "two";
    two.parts.push_back(part(kernel("add_one", {x, scratch})));
    two.parts.push_back(part(kernel("double", {scratch, y})));
    auto step = std::make_unique<fb::StepT>();
    step->name = "choice_0";
    step->bytes_read = step->bytes_written = step->flops = builder.constant(8);
    step->reads = {x};
    step->writes = {y, scratch};
    step->work.Set(std::move(choice));
    builder.meta.steps.push_back(std::move(step));
    if (!with_product) return;
    const Id one = builder.constant(1), two_rows = builder.constant(2);
    fb::MatmulStepT product;
    product.m = product.n = product.k = two_rows;
    const Id a = builder.input("a", DType::kFloat32, {two_rows, two_rows});
    product.a = builder.matrix(a, two_rows, one);
    product.b = builder.matrix(a, two_rows, one);
    product.d =
        builder.matrix(builder.output("d", DType::kFloat32, {two_rows, two_rows}), two_rows, one);
    builder.matmul("product", std::move(product));
  }

  fb::WorkUnion kernel(const std::string& function, const std::vector<Id>& buffers) {
    const Id one = builder.constant(1);
    fb::KernelStepT work;
    work.variants.push_back(CudaPlanBuilder::variant(function, one, {}, one));
    for (const Id buffer : buffers) work.args.emplace_back(fb::ArgKind::Buffer, buffer);
    work.args.emplace_back(fb::ArgKind::Int64, n);
    fb::WorkUnion result;
    result.Set(std::move(work));
    return result;
  }

  /// y = x, by a kernel of one element.
  fb::WorkUnion convolution() {
    const Id one = builder.constant(1);
    fb::ConvStepT work;
    work.channels_last = true;
    work.input = work.weight = x;
    work.output = y;
    work.input_shape = work.output_shape = {one, n, one};
    work.weight_shape = {one, one, one};
    work.strides = work.dilations = {1};
    work.pads_begin = work.pads_end = {0};
    fb::WorkUnion result;
    result.Set(std::move(work));
    return result;
  }

  fb::TacticStepT& choice() { return *builder.meta.steps[0]->work.AsTacticStep(); }
};

class ChoiceTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake().kernels["both"] = {3, [this](const CUlaunchConfig& config, const auto& v) {
                                attributes = config.numAttrs;
                                fake().clock += cost;
                                if (fake_cublaslt().matmuls != matmuls) fake().clock += graph_cost;
                                matmuls = fake_cublaslt().matmuls;
                                for (std::uint64_t i = 0; i < v[2]; ++i)
                                  reinterpret_cast<float*>(v[1])[i] =
                                      2 * (reinterpret_cast<const float*>(v[0])[i] + 1);
                              }};
  }

  void run_with(std::int64_t n) {
    set_input(0, std::vector<float>(static_cast<std::size_t>(n), 3), {n});
    if (plan->meta.inputs.size() > 1) set_input(1, {1, 0, 0, 1}, {2, 2});
    executor->prepare(bound({n}));
    fake().launched.clear();  // of what was timed
    run({n});
    for (const float value : output()) ASSERT_EQ(value, 8);
  }

  unsigned attributes = 0;
  double cost = 0;        // of "both", in microseconds beyond those of any launch
  double graph_cost = 0;  // more of it where the product has run since the last time
  int matmuls = 0;
};

TEST_F(ChoiceTest, TheFirstWhoseConditionsHoldRuns) {
  open(ChoicePlan().builder.data());
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("both"));
  EXPECT_EQ(executor->launches(), 1u);
  run_with(101);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
  EXPECT_EQ(executor->launches(), 2u);
}

TEST_F(ChoiceTest, ClustersAreLaunchAttributes) {
  open(ChoicePlan().builder.data());
  run_with(7);
  EXPECT_EQ(attributes, 1u);  // the first kernel of a run is not launched early
  EXPECT_EQ(fake().configs.back().gridDimX, 4u);
}

TEST_F(ChoiceTest, GpusWithoutClustersTakeAnother) {
  fake().major = 8;
  open(ChoicePlan().builder.data());
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
}

TEST_F(ChoiceTest, BlocksThatWaitForEachOtherRunWhereAllAreResident) {
  ChoicePlan made;
  auto& variant = *made.choice().tactics[0]->parts[0]->work.AsKernelStep()->variants[0];
  variant.cluster = 0;
  variant.programmatic_launch = false;
  open(made.builder.data());
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("both"));
  EXPECT_EQ(attributes, 1u);  // a cooperative launch
  variant.grid[0] = made.builder.constant(1'000'000);
  open(made.builder.data());
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
}

TEST_F(ChoiceTest, GridsOfBrokenClustersAreRefused) {
  ChoicePlan made;
  made.choice().tactics[0]->parts[0]->work.AsKernelStep()->variants[0]->grid[0] = made.n;
  open(made.builder.data());
  run_with(8);
  const Error error = error_of([&] { executor->prepare(bound({7})); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("'choice_0'"), HasSubstr("7 blocks"), HasSubstr("clusters of 2")));
}

TEST_F(ChoiceTest, TheFastestIsFoundByTimingAndKept) {
  SessionOptions options;
  const fs::path folder =
      fs::temp_directory_path() / ("sinter_choice_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  options.tuning_cache = folder.string();
  cost = 1000;
  open(ChoicePlan(true).builder.data(), options);
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
  // Another session does not time again, even where the figures would differ now.
  executor.reset();
  cost = 0;
  open(ChoicePlan(true).builder.data(), options);
  run_with(7);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
  // Another size is another problem.
  run_with(8);
  EXPECT_THAT(fake().launched, ElementsAre("both"));
  fs::remove_all(folder);
}

// What was chosen without a file is kept for the process: every test has sizes of its own.
TEST_F(ChoiceTest, WhatIsFasterInTheWholeGraphIsTaken) {
  graph_cost = 1000;
  cost = 0.8;  // alone it is the faster one: two launches count as a microsecond more
  open(ChoicePlan(true).builder.data());
  run_with(11);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
}

TEST_F(ChoiceTest, WithoutAGraphStepsAreTimedAlone) {
  graph_cost = 1000;
  cost = 0.8;
  SessionOptions options;
  options.cuda_graphs = false;
  open(ChoicePlan(true).builder.data(), options);
  run_with(12);
  EXPECT_THAT(fake().launched, ElementsAre("both"));
}

TEST_F(ChoiceTest, TimingDoesNotWriteTheUsersMemory) {
  cost = 1000;
  open(ChoicePlan(true).builder.data());
  const graphs::DeviceMemory memory(graphs::Context::retain(fake().driver(), 0),
                                    16 * sizeof(float));
  auto* mine = reinterpret_cast<float*>(memory.address());
  std::fill_n(mine, 16, -1.0f);
  executor->set_output(0, MutableTensorView{DType::kFloat32, {16}, mine, Memory::kDevice});
  set_input(0, std::vector<float>(16, 3), {16});
  set_input(1, {1, 0, 0, 1}, {2, 2});
  executor->prepare(bound({16}));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(mine[i], -1.0f);
  executor->run(bound({16}), nullptr);
  executor->await();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(mine[i], 8.0f);
  executor.reset();  // before the memory that it writes
}

// ---- what the reader refuses

struct BadChoice {
  const char* name;
  void (*apply)(ChoicePlan&);
  const char* expected;
};

const BadChoice kDamages[] = {
    {"no_alternative", [](ChoicePlan& p) { p.choice().tactics.clear(); }, "no tactic"},
    {"conditional_last",
     [](ChoicePlan& p) {
       p.choice().tactics[1]->conditions = {{p.n, 1, 5}};
     },
     "its last tactic 'two' has conditions"},
    {"bad_condition",
     [](ChoicePlan& p) {
       p.choice().tactics[0]->conditions = {{99999, 1, 5}};
     },
     "a condition's expression is 99999"},
    {"zero_divisor",
     [](ChoicePlan& p) {
       p.choice().tactics[0]->conditions = {{p.n, 0, kAny}};
     },
     "divisor is 0"},
    {"empty_alternative", [](ChoicePlan& p) { p.choice().tactics[0]->parts.clear(); },
     "'both' is empty"},
    {"nested", [](ChoicePlan& p) { p.choice().tactics[0]->parts[0]->work.Set(fb::TacticStepT{}); },
     "which cannot be one"},
    {"loop_part",
     [](ChoicePlan& p) {
       fb::LoopStepT loop;
       loop.program = std::make_unique<fb::LoopProgramT>();
       p.choice().tactics[0]->parts[0]->work.Set(std::move(loop));
     },
     "which cannot be one"},
    {"convolution_last",
     [](ChoicePlan& p) {
       p.choice().tactics[1]->parts.clear();
       p.choice().tactics[1]->parts.push_back(part(p.convolution()));
     },
     "its last tactic 'two' needs a library of convolutions"},
    {"convolution_alone", [](ChoicePlan& p) { p.builder.meta.steps[0]->work = p.convolution(); },
     "must be one of a choice's tactics"},
    {"no_part_work", [](ChoicePlan& p) { p.choice().tactics[0]->parts[0]->work.Reset(); },
     "which cannot be one"},
    {"incomplete", [](ChoicePlan& p) { p.choice().tactics[1]->parts.pop_back(); },
     "'two' does not write buffer"},
    {"undeclared", [](ChoicePlan& p) { p.builder.meta.steps[0]->writes.pop_back(); }, "undeclared"},
    {"scratch_read_first",
     [](ChoicePlan& p) {
       auto& parts = p.choice().tactics[1]->parts;
       fb::CopyStepT copy;
       copy.source = p.scratch;
       copy.target = p.y;
       copy.bytes = p.n;
       parts[0]->work.Set(std::move(copy));
     },
     "reads buffer 2 undeclared"},
    {"cluster",
     [](ChoicePlan& p) {
       p.choice().tactics[0]->parts[0]->work.AsKernelStep()->variants[0]->cluster = 17;
     },
     "clusters of 17 blocks"},
    {"early_at_once",
     [](ChoicePlan& p) {
       p.choice().tactics[0]->parts[0]->work.AsKernelStep()->variants[0]->cluster = 0;
     },
     "whose blocks wait for each other, may not start early"},
    {"sample_of_floats", [](ChoicePlan& p) { p.choice().samples.emplace_back(p.x, p.n); },
     "which it does not read as integers"},
    {"bad_sample", [](ChoicePlan& p) { p.choice().samples.emplace_back(p.x, 99999); },
     "the greatest of its indices"},
    {"on_cpu", [](ChoicePlan& p) { p.builder.meta.target = "cpu"; },
     "a choice cannot run on target 'cpu'"},
};

TEST(Choice, TakesAConvolutionFirst) {
  ChoicePlan plan;
  plan.choice().tactics[0]->parts.clear();
  plan.choice().tactics[0]->parts.push_back(part(plan.convolution()));
  EXPECT_NO_THROW(plan.builder.data());
}

class ChoiceDamage : public ::testing::TestWithParam<BadChoice> {};

TEST_P(ChoiceDamage, IsRefused) {
  ChoicePlan plan;
  GetParam().apply(plan);
  const Error error = error_of([&] { plan.builder.data(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(BadChoice, ChoiceDamage, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sinter::testing
