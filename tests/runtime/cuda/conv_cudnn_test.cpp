// SPDX-License-Identifier: Apache-2.0
// Convolutions through cuDNN: descriptors, the choice of an engine, what is kept, what is said
// where the library is missing or refuses.
#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/cuda/cudnn/cudnn_engines.h"
#include "tests/runtime/cpu/conv_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/cuda/fake_cudnn.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] =
        static_cast<float>(static_cast<int>((i * 37 + static_cast<std::size_t>(seed)) % 19) - 9) /
        8.0f;
  return values;
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

/// A choice between cuDNN and a kernel "own" that sets every element (of float32) to kOwn.
constexpr float kOwn = 4321;

struct ConvPlanBuilder {
  CudaPlanBuilder builder;
  Id output = 0;
  std::vector<float> inputs[4];  // x, w, bias, residual
  std::vector<std::vector<std::int64_t>> shapes;

  explicit ConvPlanBuilder(const ConvCase& test, fb::MathMode math = fb::MathMode::Default,
                           DType type = DType::kFloat32) {
    fb::ConvStepT work = test.step(builder);
    work.math = math;
    const auto add = [&](const char* name, const std::vector<std::int64_t>& shape, int which) {
      std::vector<Id> dims;
      for (const std::int64_t size : shape) dims.push_back(builder.constant(size));
      inputs[which] = numbers(static_cast<std::size_t>(count_of(shape)), 5 * which);
      shapes.push_back(shape);
      return builder.input(name, type, dims);
    };
    work.input = add("x", test.input_shape(), 0);
    work.weight = add("w", test.weight_shape(), 1);
    if (test.bias) work.bias = static_cast<std::int32_t>(add("bias", {test.results}, 2));
    if (test.residual)
      work.residual = static_cast<std::int32_t>(add("residual", test.output_shape(), 3));
    std::vector<Id> dims;
    for (const std::int64_t size : test.output_shape()) dims.push_back(builder.constant(size));
    output = work.output = builder.output("y", type, dims);

    fb::KernelStepT own;
    const Id one = builder.constant(1);
    own.variants.push_back(CudaPlanBuilder::variant("own", one, {}, one));
    own.args.emplace_back(fb::ArgKind::Buffer, output);
    own.args.emplace_back(fb::ArgKind::Int64,
                          builder.constant(count_of(test.output_shape()) *
                                           static_cast<std::int64_t>(size_of(type)) / 4));
    auto step = std::make_unique<fb::StepT>();
    step->name = "conv_0";
    step->bytes_read = step->bytes_written = step->flops = builder.constant(8);
    step->reads = {work.input, work.weight};
    if (work.bias >= 0) step->reads.push_back(static_cast<Id>(work.bias));
    if (work.residual >= 0) step->reads.push_back(static_cast<Id>(work.residual));
    step->writes = {output};
    fb::TacticStepT choice;
    add_alternative(choice, "cudnn", std::move(work));
    add_alternative(choice, "own", std::move(own));
    step->work.Set(std::move(choice));
    builder.meta.steps.push_back(std::move(step));
  }

  template <typename Work>
  static void add_alternative(fb::TacticStepT& choice, const char* name, Work work) {
    auto tactic = std::make_unique<fb::TacticT>();
    tactic->name = name;
    auto part = std::make_unique<fb::PartT>();
    part->work.Set(std::move(work));
    tactic->parts.push_back(std::move(part));
    choice.tactics.push_back(std::move(tactic));
  }
};

ConvCase plain() {
  return {"plain", true, 2, 3, 4, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
}

class ConvTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake_cudnn().reset();
    static int count = 0;
    folder = fs::temp_directory_path() / fmt::format("sinter_conv_{}_{}", ::getpid(), count++);
    fake().kernels["own"] = {2, [this](const CUlaunchConfig&, const auto& v) {
                               fake().clock += own_microseconds;
                               for (std::uint64_t i = 0; i < v[1]; ++i)
                                 reinterpret_cast<float*>(v[0])[i] = kOwn;
                             }};
  }
  void TearDown() override {
    CudaTest::TearDown();
    fs::remove_all(folder);
    EXPECT_EQ(fake_cudnn().alive(), 0);
    EXPECT_EQ(fake_cudnn().misuse, "");
  }
  runtime::CudaEnvironment environment() const override {
    return {&fake().driver(), &load_fake_cublaslt, load};
  }

  /// What was chosen is kept for the test alone.
  void open_case(const ConvCase& test, fb::MathMode math = fb::MathMode::Default,
                 bool cuda_graphs = true) {
    SessionOptions options;
    options.tuning_cache = folder.string();
    options.cuda_graphs = cuda_graphs;
    ConvPlanBuilder made(test, math);
    open(made.builder.data(), options);
    for (int which = 0, input = 0; which < 4; ++which)
      if (!made.inputs[which].empty()) {
        const auto index = static_cast<std::size_t>(input++);
        set_input(index, made.inputs[which], made.shapes[index]);
      }
    expected = test.expected(made.inputs[0], made.inputs[1], made.inputs[2], made.inputs[3]);
  }
  void check_ran_by_cudnn() {
    const auto values = output();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], 1e-4) << "element " << i;
  }
  void check_ran_by_own() {
    for (const float value : output()) ASSERT_EQ(value, kOwn);
  }
  std::string how() { return executor->profile().at(0).how; }

  fs::path folder;
  std::shared_ptr<const runtime::Cudnn> (*load)() = &load_fake_cudnn;
  double own_microseconds = 1000;
  std::vector<float> expected;
};

// ---- descriptors: what is computed

class ConvCases : public ConvTest, public ::testing::WithParamInterface<ConvCase> {};

TEST_P(ConvCases, GiveWhatTheyMust) {
  open_case(GetParam());
  run({});
  check_ran_by_cudnn();
  EXPECT_EQ(executor->launches(), 1u);
}

ConvCase with(ConvCase test, const char* name, fb::Activation activation, float a = 0,
              float b = 0) {
  test.name = name;
  test.bias = true;
  test.activation = activation;
  test.a = a;
  test.b = b;
  return test;
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvCases,
    ::testing::Values(
        plain(),
        ConvCase{
            "channels_first", false, 2, 3, 4, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        ConvCase{"one_dimension", true, 2, 3, 4, 1, {9}, {3}, {2}, {1}, {1}, {1}, true},
        ConvCase{"one_dimension_first", false, 2, 3, 4, 1, {9}, {3}, {1}, {2}, {2}, {2}, true},
        ConvCase{"three_dimensions",
                 true,
                 1,
                 2,
                 3,
                 1,
                 {4, 5, 3},
                 {3, 2, 3},
                 {1, 2, 1},
                 {1, 1, 1},
                 {1, 0, 1},
                 {1, 1, 1},
                 true},
        ConvCase{"strides_and_dilations",
                 true,
                 1,
                 4,
                 4,
                 1,
                 {11, 10},
                 {3, 2},
                 {2, 3},
                 {2, 1},
                 {2, 0},
                 {2, 0}},
        ConvCase{"uneven_pads", true, 1, 2, 2, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {0, 2}, {2, 1}},
        ConvCase{"groups", true, 2, 6, 4, 2, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        ConvCase{"depthwise", true, 2, 4, 8, 4, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        ConvCase{"bias", false, 2, 3, 4, 1, {6, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
        ConvCase{"residual",
                 true,
                 2,
                 3,
                 4,
                 1,
                 {6, 5},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 false,
                 true},
        ConvCase{"all",
                 true,
                 2,
                 3,
                 4,
                 1,
                 {6, 5},
                 {3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 true,
                 true,
                 fb::Activation::Relu},
        with(plain(), "gelu_erf", fb::Activation::GeluErf),
        with(plain(), "gelu_tanh", fb::Activation::GeluTanh),
        with(plain(), "sigmoid", fb::Activation::Sigmoid),
        with(plain(), "tanh", fb::Activation::Tanh), with(plain(), "silu", fb::Activation::Silu),
        with(plain(), "hard_sigmoid", fb::Activation::HardSigmoid, 0.2f, 0.5f),
        with(plain(), "hard_swish", fb::Activation::HardSwish, 1 / 6.0f, 0.5f),
        with(plain(), "leaky_relu", fb::Activation::LeakyRelu, 0.1f),
        with(plain(), "clip", fb::Activation::Clip, -1, 2)),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ConvTest, ResidualComesBeforeBiasAsCompiledEnginesHaveIt) {
  ConvCase test = with(plain(), "", fb::Activation::Relu);
  test.residual = true;
  open_case(test);
  run({});
  EXPECT_THAT(fake_cudnn().operations,
              ElementsAre(-1, CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_RELU_FWD));
}

// ---- the choice of an engine

TEST_F(ConvTest, FastestAcceptedEngineIsChosen) {
  using Note = cudnnBackendNumericalNote_t;
  const auto noted = [](std::int64_t id, std::vector<Note> notes) {
    return FakeEngine{id, {}, std::move(notes), 1};
  };
  fake_cudnn().engines = {
      {1, {{2, 3}}, {}, 30},
      noted(2, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}),
      noted(3, {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}),
      noted(4, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}),
      noted(5, {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}),
      noted(6, {CUDNN_NUMERICAL_NOTE_FFT}),
      noted(7, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}),
      {8, {}, {}, 1, std::int64_t{1} << 40},                              // workspace
      {9, {}, {}, 1, 0, false, false},                                    // does not build
      {10, {}, {}, 1, 0, false, true, CUDNN_STATUS_NOT_SUPPORTED_SHAPE},  // does not run
      {11, {{2, 5}, {13, -1}}, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 20, 131},
      {12, {}, {CUDNN_NUMERICAL_NOTE_WINOGRAD}, 25},
  };
  open_case(plain());
  run({});
  check_ran_by_cudnn();
  EXPECT_EQ(fake_cudnn().engines_run.back(), 11);
  EXPECT_EQ(how(), "cudnn: cuDNN engine 11 (2=5, 13=-1), 131 bytes of workspace");
  EXPECT_EQ(executor->memory().workspace, 32u << 20);
}

TEST_F(ConvTest, Tf32IsTakenWhereItIsAllowed) {
  fake_cudnn().engines = {{1, {}, {}, 30}, {2, {}, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 10}};
  open_case(plain());
  run({});
  EXPECT_EQ(fake_cudnn().engines_run.back(), 1);
  open_case(plain(), fb::MathMode::Tf32);
  run({});
  EXPECT_EQ(fake_cudnn().engines_run.back(), 2);
}

TEST_F(ConvTest, SixteenBitsTakeTensorCoresButNoTransforms) {
  fake_cudnn().engines = {{1, {}, {}, 30},
                          {2, {}, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 20},
                          {3, {}, {CUDNN_NUMERICAL_NOTE_WINOGRAD}, 10}};
  ConvPlanBuilder made(plain(), fb::MathMode::Default, DType::kFloat16);
  SessionOptions options;
  options.tuning_cache = folder.string();
  open(made.builder.data(), options);
  executor->prepare(bound({}));
  fake_cudnn().engines_run.clear();
  const std::vector<std::uint16_t> zeros(1000);
  for (std::size_t i = 0; i < 2; ++i)
    executor->set_input(i, {DType::kFloat16, made.shapes[i], zeros.data(), Memory::kHost});
  run({});
  EXPECT_THAT(fake_cudnn().engines_run, ElementsAre(2));
}

TEST_F(ConvTest, HeuristicsAreAskedInTurnThenAllEngines) {
  fake_cudnn().engines = {{1, {}, {}, 40},
                          {2, {}, {}, 30, 0, false, true, {}, CUDNN_HEUR_MODE_B},
                          {3, {}, {}, 20, 0, false, true, {}, CUDNN_HEUR_MODE_FALLBACK},
                          {4, {}, {}, 10, 0, false, true, {}, CUDNN_HEUR_MODES_COUNT}};
  open_case(plain());
  run({});
  EXPECT_EQ(fake_cudnn().heuristics, 3);
  EXPECT_EQ(fake_cudnn().engines_run.back(), 4);
}

TEST_F(ConvTest, FewEnginesAreCompiledAtRunTime) {
  fake_cudnn().engines.clear();
  for (std::int64_t id = 0; id < 6; ++id)
    fake_cudnn().engines.push_back({id, {}, {}, 60.0 - static_cast<double>(id), 0, true});
  open_case(plain());
  run({});
  EXPECT_EQ(fake_cudnn().plans, 3);
}

TEST_F(ConvTest, UserMemoryIsNotWrittenWhileTiming) {
  open_case(plain());
  const graphs::DeviceMemory memory(graphs::Context::retain(fake().driver(), 0), 4096);
  auto* mine = reinterpret_cast<float*>(memory.address());
  mine[0] = 1234;
  executor->set_output(0, {DType::kFloat32, plain().output_shape(), mine, Memory::kDevice});
  executor->prepare(bound({}));
  EXPECT_GT(fake_cudnn().runs, 0);
  EXPECT_EQ(mine[0], 1234);
  executor->run(bound({}), nullptr);
  executor->await();
  EXPECT_NEAR(mine[0], expected[0], 1e-4);
  executor.reset();
}

TEST_F(ConvTest, WithoutGraphsItIsLaunchedOnTheStream) {
  open_case(plain(), fb::MathMode::Default, false);
  run({});
  check_ran_by_cudnn();
}

// ---- tactics

TEST_F(ConvTest, OwnKernelIsTakenWhereItIsFaster) {
  fake_cudnn().engines[0].microseconds = 500;
  own_microseconds = 1;
  open_case(plain());
  run({});
  check_ran_by_own();
  EXPECT_EQ(how(), "own");
}

TEST_F(ConvTest, WhatNoEngineDoesIsLeftToTheOwnKernel) {
  fake_cudnn().unsupported = {CUDNN_POINTWISE_SWISH_FWD};
  open_case(with(plain(), "", fb::Activation::Silu));
  run({});
  check_ran_by_own();
}

TEST_F(ConvTest, MissingLibraryLeavesTheOwnKernel) {
  load = [] { return no_cudnn(); };
  open_case(plain());
  run({});
  check_ran_by_own();
  EXPECT_EQ(fake_cudnn().handles, 0);
}

TEST_F(ConvTest, LibraryThatDoesNotKnowTheGpuLeavesTheOwnKernel) {
  fake_cudnn().create = CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;
  open_case(plain());
  run({});
  check_ran_by_own();
}

TEST_F(ConvTest, OnlyAlternativeWithoutLibraryIsAnErrorThatNamesIt) {
  load = [] { return no_cudnn(); };
  ConvPlanBuilder made(plain());
  fb::TacticStepT& choice = *made.builder.meta.steps[0]->work.AsTacticStep();
  // A kernel in clusters, which this GPU has not.
  choice.tactics[1]->parts[0]->work.AsKernelStep()->variants[0]->cluster = 2;
  made.builder.meta.architectures = {"sm_80"};
  made.builder.meta.modules[0]->target = "sm_80";
  fake().major = 8;
  open(made.builder.data());
  const Error error = error_of([&] { executor->prepare(bound({})); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'conv_0'"), HasSubstr("'cudnn'"),
                                  HasSubstr("there is no cuDNN in this test")));
}

TEST_F(ConvTest, ReasonsOfTheLibraryAreSaid) {
  fake_cudnn().engines = {{7, {}, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 10},
                          {8, {}, {}, 1, std::int64_t{1} << 40}};
  open_case(plain());
  executor->prepare(bound({}));
  runtime::LibraryContext context;
  context.context = graphs::Context::retain(fake().driver(), 0);
  const graphs::Context::Scope scope(*context.context);
  context.cudnn = runtime::make_cudnn_handle(load_fake_cudnn());
  context.tuning = runtime::TuningCache::open("", "reasons");
  const ConvPlanBuilder made(plain());
  const auto values = plan::evaluate_expressions(made.builder.meta, {});
  const auto problem = runtime::bind_conv(
      made.builder.meta,
      *made.builder.meta.steps[0]->work.AsTacticStep()->tactics[0]->parts[0]->work.AsConvStep(),
      values);
  const Error error = error_of([&] { runtime::ConvLaunch(context, problem, {}); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("conv f32 last x2,3,6,5 w4,3,3,3"), HasSubstr("Fake GPU"),
                    HasSubstr("cuDNN 9.19.0"), HasSubstr("engine 7 takes float32 as tf32"),
                    HasSubstr("engine 8 needs 1099511627776 bytes of workspace")));
  context.cudnn.reset();
}

TEST_F(ConvTest, ShortMemoryAndFailingRunsAreErrors) {
  fake_cudnn().engines = {{1, {}, {}, 1, 0, false, true, CUDNN_STATUS_EXECUTION_FAILED}};
  open_case(plain());
  EXPECT_EQ(error_of([&] { executor->prepare(bound({})); }).code(), ErrorCode::kDevice);
  fake_cudnn().engines = {
      {1, {}, {}, 1, 0, false, true, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED}};
  open_case(plain());
  const Error error = error_of([&] { executor->prepare(bound({})); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("cudnnBackendExecute"), HasSubstr("the fake's reason"),
                                  HasSubstr("9.19.0")));
}

// ---- what is kept

class ConvTuningTest : public ConvTest {
 protected:
  void SetUp() override {
    ConvTest::SetUp();
    fake_cudnn().engines = {{1, {{2, 1}}, {}, 30}, {1, {{2, 2}, {13, -1}}, {}, 20}};
  }
};

TEST_F(ConvTuningTest, EngineAndAlternativeAreKeptAndUsed) {
  open_case(plain());
  executor->prepare(bound({}));
  const int asked = fake_cudnn().heuristics;
  executor.reset();
  // Another session, and the other engine faster now: the choice stands, and nothing is timed.
  fake_cudnn().engines[0].microseconds = 1;
  fake_cudnn().runs = 0;
  open_case(plain());
  executor->prepare(bound({}));
  EXPECT_EQ(fake_cudnn().heuristics, asked);
  EXPECT_EQ(fake_cudnn().runs, 1);  // before it is captured
  run({});
  check_ran_by_cudnn();
  EXPECT_EQ(how(), "cudnn: cuDNN engine 1 (2=2, 13=-1), 0 bytes of workspace");
}

TEST_F(ConvTuningTest, AnotherVersionChoosesAnew) {
  open_case(plain());
  executor->prepare(bound({}));
  const int asked = fake_cudnn().heuristics;
  executor.reset();
  fake_cudnn().version = 92001;
  open_case(plain());
  executor->prepare(bound({}));
  EXPECT_GT(fake_cudnn().heuristics, asked);
  std::ifstream stream(folder / "cublaslt.tuning");
  std::stringstream text;
  text << stream.rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("cuDNN 9.19.0"), HasSubstr("cuDNN 9.20.1")));
  // The file says what was chosen: an engine, and a way to do the step, with the times of others.
  std::vector<std::string> notes;
  for (const auto& choice : runtime::read_tuning_file((folder / "cublaslt.tuning").string()))
    if (choice.environment.ends_with("9.19.0")) notes.push_back(choice.algorithm.note);
  const std::string engine = "cuDNN engine 1 (2=2, 13=-1), 0 bytes of workspace";
  EXPECT_THAT(notes, ElementsAre("cudnn: " + engine + "; own: 1010.00 us", engine));
}

TEST_F(ConvTuningTest, EngineThatIsRefusedNowIsChosenAnew) {
  open_case(plain());
  executor->prepare(bound({}));
  executor.reset();
  fake_cudnn().engines[1].builds = false;
  open_case(plain());
  run({});
  check_ran_by_cudnn();
  EXPECT_EQ(how(), "cudnn: cuDNN engine 1 (2=1), 0 bytes of workspace");
}

TEST_F(ConvTest, OnePlanServesEqualConvolutions) {
  open_case(plain());
  run({});
  const int plans = fake_cudnn().plans;
  // Other addresses: bound again, without another plan.
  const graphs::DeviceMemory memory(graphs::Context::retain(fake().driver(), 0), 4096);
  executor->set_output(0, {DType::kFloat32, plain().output_shape(),
                           reinterpret_cast<float*>(memory.address()), Memory::kDevice});
  executor->prepare(bound({}));
  EXPECT_EQ(fake_cudnn().plans, plans);
  executor.reset();
}

TEST(EngineChoice, ComesBackFromItsBlob) {
  const runtime::EngineChoice choice{41, {{2, 4}, {12, -1}}};
  EXPECT_EQ(runtime::EngineChoice::from(choice.blob()), choice);
  EXPECT_EQ(runtime::EngineChoice::from({}), std::nullopt);
  EXPECT_EQ(runtime::EngineChoice::from({1, 2}), std::nullopt);
}

// ---- the library

TEST(CudnnLibrary, OldVersionsAndMissingEntriesAreNamed) {
  fake_cudnn().reset();
  fake_cudnn().version = 8907;
  const Error old = error_of([] { load_fake_cudnn(); });
  EXPECT_EQ(old.code(), ErrorCode::kDevice);
  EXPECT_THAT(old.what(), AllOf(HasSubstr("cuDNN 8.9.7"), HasSubstr("too old"), HasSubstr("9.0")));
  fake_cudnn().reset();
  const Error missing = error_of(
      [] { runtime::Cudnn library([](const char*) -> void* { return nullptr; }, "some.so"); });
  EXPECT_THAT(missing.what(), AllOf(HasSubstr("some.so"), HasSubstr("cudnnGetVersion")));
}

}  // namespace
}  // namespace sinter::testing
