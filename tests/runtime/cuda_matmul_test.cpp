// Matrix products: how they are put to the library, against a plain loop, and how algorithms are
// chosen and kept.
#include <cmath>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include <unistd.h>

#include "runtime/cuda/matmul_problem.h"
#include "runtime/cuda/tuning_cache.h"
#include "tests/runtime/cuda_fixture.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using runtime::bind_matmul;
using runtime::MatmulProblem;
using runtime::TunedAlgorithm;
using runtime::TuningCache;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Layout {
  std::int64_t row = 0, col = 0;
  std::vector<std::int64_t> batch;
  std::int64_t offset = 0;
};

struct Case {
  const char* name;
  std::int64_t m, n, k;
  std::vector<std::int64_t> batch;
  Layout a, b, d;
  std::optional<Layout> residual;
  bool bias = false;
  fb::Activation activation = fb::Activation::None;
  float alpha = 1;
  int calls = 1;  // of the library
};

std::int64_t extent(const Layout& l, std::int64_t rows, std::int64_t cols,
                    const std::vector<std::int64_t>& batch) {
  std::int64_t last = l.offset + (rows - 1) * l.row + (cols - 1) * l.col;
  for (std::size_t i = 0; i < batch.size(); ++i) last += (batch[i] - 1) * l.batch[i];
  return last + 1;
}

class MatmulTest : public CudaTest {
 protected:
  /// The product of `test` as a plan: inputs a, b, bias and residual where it has them.
  std::shared_ptr<const plan::PlanData> plan_of(const Case& test) {
    CudaPlanBuilder builder;
    const auto constant = [&](std::int64_t value) { return builder.constant(value); };
    const auto matrix = [&](Id buffer, const Layout& layout) {
      std::vector<Id> strides;
      for (const std::int64_t stride : layout.batch) strides.push_back(constant(stride));
      return builder.matrix(buffer, constant(layout.row), constant(layout.col), strides,
                            constant(layout.offset));
    };
    const auto size = [&](const Layout& layout, std::int64_t rows, std::int64_t cols) {
      return std::vector<Id>{constant(extent(layout, rows, cols, test.batch))};
    };
    fb::MatmulStepT step;
    step.m = constant(test.m);
    step.n = constant(test.n);
    step.k = constant(test.k);
    for (const std::int64_t b : test.batch) step.batch.push_back(constant(b));
    step.a = matrix(builder.input("a", DType::kFloat32, size(test.a, test.m, test.k)), test.a);
    step.b = matrix(builder.input("b", DType::kFloat32, size(test.b, test.k, test.n)), test.b);
    if (test.bias)
      step.bias =
          static_cast<std::int32_t>(builder.input("bias", DType::kFloat32, {constant(test.n)}));
    if (test.residual)
      step.residual =
          matrix(builder.input("residual", DType::kFloat32, size(*test.residual, test.m, test.n)),
                 *test.residual);
    step.d = matrix(builder.output("d", DType::kFloat32, size(test.d, test.m, test.n)), test.d);
    step.alpha = test.alpha;
    step.activation = test.activation;
    builder.matmul("product", std::move(step));
    return builder.data();
  }

  static std::vector<float> random_values(std::int64_t count, int seed) {
    std::mt19937 generator(static_cast<unsigned>(seed));
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(generator() % 2000) / 1000.0f - 1;
    return values;
  }

  void set_inputs(const Case& test) {
    a = random_values(extent(test.a, test.m, test.k, test.batch), 1);
    b = random_values(extent(test.b, test.k, test.n, test.batch), 2);
    bias = random_values(test.n, 3);
    std::size_t index = 0;
    const auto set = [&](const std::vector<float>& values) {
      set_input(index++, values, {static_cast<std::int64_t>(values.size())});
    };
    set(a);
    set(b);
    if (test.bias) set(bias);
    if (test.residual) {
      residual = random_values(extent(*test.residual, test.m, test.n, test.batch), 4);
      set(residual);
    }
  }

  void check(const Case& test) const {
    const std::vector<float> got = output();
    std::int64_t count = 1;
    for (const std::int64_t b_extent : test.batch) count *= b_extent;
    for (std::int64_t flat = 0; flat < count; ++flat) {
      const auto base = [&](const Layout& layout) {
        std::int64_t rest = flat;
        std::int64_t at = layout.offset;
        for (std::size_t i = test.batch.size(); i-- > 0; rest /= test.batch[i])
          at += rest % test.batch[i] * layout.batch[i];
        return at;
      };
      for (std::int64_t i = 0; i < test.m; ++i)
        for (std::int64_t j = 0; j < test.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < test.k; ++l)
            sum += static_cast<double>(a[base(test.a) + i * test.a.row + l * test.a.col]) *
                   b[base(test.b) + l * test.b.row + j * test.b.col];
          double value = test.alpha * sum;
          if (test.bias) value += bias[j];
          if (test.residual)
            value +=
                residual[base(*test.residual) + i * test.residual->row + j * test.residual->col];
          if (test.activation == fb::Activation::Relu) value = std::max(value, 0.0);
          if (test.activation == fb::Activation::GeluTanh)
            value = 0.5 * value *
                    (1 + std::tanh(0.7978845608 * (value + 0.044715 * value * value * value)));
          ASSERT_NEAR(got[base(test.d) + i * test.d.row + j * test.d.col], value, 1e-4)
              << "batch " << flat << " row " << i << " column " << j;
        }
    }
  }

  std::vector<float> a, b, bias, residual;
};

class MatmulCases : public MatmulTest, public ::testing::WithParamInterface<Case> {};

TEST_P(MatmulCases, GivesTheProduct) {
  const Case& test = GetParam();
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
  EXPECT_EQ(executor->launches(), static_cast<std::size_t>(test.calls));
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulCases,
    ::testing::Values(
        Case{"plain", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}},
        Case{"a_transposed", 3, 5, 4, {}, {1, 3}, {5, 1}, {5, 1}},
        Case{"b_transposed", 3, 5, 4, {}, {4, 1}, {1, 4}, {5, 1}},
        Case{"both_transposed", 3, 5, 4, {}, {1, 3}, {1, 4}, {5, 1}},
        Case{"d_transposed", 3, 5, 4, {}, {4, 1}, {5, 1}, {1, 3}},
        Case{"all_transposed", 3, 5, 4, {}, {1, 3}, {1, 4}, {1, 3}},
        Case{"padded_rows", 3, 5, 4, {}, {9, 1}, {7, 1}, {11, 1}},
        Case{"offsets", 3, 5, 4, {}, {4, 1, {}, 8}, {5, 1, {}, 16}, {5, 1, {}, 4}},
        Case{"one_row", 1, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}},
        Case{"one_column", 3, 1, 4, {}, {4, 1}, {1, 1}, {1, 1}},
        Case{"one_of_all", 1, 1, 1, {}, {1, 1}, {1, 1}, {1, 1}},
        Case{"one_row_strided", 1, 5, 4, {}, {77, 1}, {5, 1}, {33, 1}},
        Case{"outer_product", 3, 5, 1, {}, {1, 1}, {5, 1}, {5, 1}},
        Case{"alpha", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::None, 0.25f},
        Case{"bias", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true},
        Case{"bias_relu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true, fb::Activation::Relu},
        Case{"relu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::Relu},
        Case{"gelu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::GeluTanh},
        Case{"bias_gelu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true, fb::Activation::GeluTanh},
        Case{"residual", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, Layout{8, 1}},
        Case{"residual_bias_relu_alpha",
             3,
             5,
             4,
             {},
             {4, 1},
             {5, 1},
             {5, 1},
             Layout{5, 1},
             true,
             fb::Activation::Relu,
             0.5f},
        Case{"residual_d_transposed", 3, 5, 4, {}, {4, 1}, {5, 1}, {1, 3}, Layout{1, 4}},
        Case{"batch", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {20}}, {5, 1, {15}}},
        Case{"batch_with_bias", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {20}}, {5, 1, {15}}, {}, true},
        Case{
            "batches_merge", 3, 5, 4, {2, 3}, {4, 1, {36, 12}}, {5, 1, {60, 20}}, {5, 1, {45, 15}}},
        Case{"batches_of_one_vanish",
             3,
             5,
             4,
             {1, 6, 1},
             {4, 1, {99, 12, 98}},
             {5, 1, {97, 20, 96}},
             {5, 1, {95, 15, 94}}},
        // b has no batch: the rows of all batches are one matrix.
        Case{"batch_in_rows", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {0}}, {5, 1, {15}}},
        Case{"batch_in_rows_with_all",
             3,
             5,
             4,
             {2, 3},
             {4, 1, {36, 12}},
             {5, 1, {0, 0}},
             {5, 1, {45, 15}},
             Layout{5, 1, {45, 15}},
             true,
             fb::Activation::Relu},
        Case{"single_rows_become_rows", 1, 5, 4, {6}, {4, 1, {8}}, {5, 1, {0}}, {5, 1, {10}}},
        Case{"a_without_batch", 3, 5, 4, {6}, {4, 1, {0}}, {5, 1, {20}}, {5, 1, {15}}},
        Case{"transposed_a_does_not_fold", 3, 5, 4, {6}, {1, 3, {12}}, {5, 1, {0}}, {5, 1, {15}}},
        // attention: [batch, heads] with the result as [batch, row, head, column]
        Case{"heads_interleaved",
             3,
             5,
             4,
             {2, 7},
             {4, 1, {84, 12}},
             {5, 1, {140, 20}},
             {35, 1, {105, 5}},
             {},
             false,
             fb::Activation::None,
             1,
             2},
        Case{"heads_of_one_batch",
             3,
             5,
             4,
             {1, 7},
             {28, 1, {84, 4}},
             {1, 28, {140, 4}},
             {5, 1, {105, 15}}},
        Case{"three_batches",
             2,
             2,
             2,
             {2, 3, 4},
             {2, 1, {4, 8, 24}},
             {2, 1, {0, 0, 4}},
             {2, 1, {16, 32, 4}},
             {},
             false,
             fb::Activation::None,
             1,
             6}),
    [](const auto& info) { return std::string(info.param.name); });

Case plain_case() { return {"plain", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}}; }

TEST_F(MatmulTest, MergedBatchesAreOneProblem) {
  const Case test{"", 3, 5, 4, {2, 3}, {4, 1, {36, 12}}, {5, 1, {0, 0}}, {5, 1, {45, 15}}};
  const auto data = plan_of(test);
  const auto values = plan::evaluate_expressions(data->meta, {});
  const MatmulProblem problem =
      bind_matmul(data->meta, *data->meta.steps[0]->work.AsMatmulStep(), values);
  EXPECT_TRUE(problem.swapped);
  EXPECT_EQ(problem.m, 5);  // column-major: the plan's n
  EXPECT_EQ(problem.n, 18);
  EXPECT_EQ(problem.batch, 1);
  EXPECT_EQ(problem.calls.size(), 1u);
}

TEST_F(MatmulTest, WhatNoLibraryDescribesIsRefused) {
  const auto refused = [&](const Case& test) {
    open(plan_of(test));
    const Error error = error_of([&] { executor->prepare(bound({})); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("'product'"));
    return std::string(error.what());
  };
  Case overlapping = plain_case();
  overlapping.a = {0, 1};
  EXPECT_THAT(refused(overlapping), HasSubstr("neither row-major nor column-major"));
  Case mixed = plain_case();
  mixed.residual = Layout{1, 3};
  EXPECT_THAT(refused(mixed), HasSubstr("not stored alike"));
  Case bias = plain_case();
  bias.d = {1, 3};
  bias.bias = true;
  EXPECT_THAT(refused(bias), HasSubstr("column-major result"));
}

TEST_F(MatmulTest, ReachingBeyondABufferIsRefused) {
  const auto data = plan_of(plain_case());
  auto values = plan::evaluate_expressions(data->meta, {});
  fb::MatmulStepT step(*data->meta.steps[0]->work.AsMatmulStep());
  const std::int64_t rows = values[step.m];
  values[step.m] = rows + 1;
  EXPECT_THAT(error_of([&] { bind_matmul(data->meta, step, values); }).what(),
              HasSubstr("beyond its buffer"));
  values[step.m] = std::int64_t{1} << 62;
  EXPECT_EQ(error_of([&] { bind_matmul(data->meta, step, values); }).code(),
            ErrorCode::kInvalidPlan);
}

TEST_F(MatmulTest, ActivationsThatTheLibraryLacksAreOurDefect) {
  Case test = plain_case();
  test.activation = fb::Activation::GeluErf;
  open(plan_of(test));
  EXPECT_EQ(error_of([&] { executor->prepare(bound({})); }).code(), ErrorCode::kInternal);
}

TEST_F(MatmulTest, SumsOverNothingAreZero) {
  CudaPlanBuilder builder;
  const Id n = builder.constant(4);
  const Id k = builder.symbol("k", 0, 8);
  const Id one = builder.constant(1);
  const Id a = builder.input("a", DType::kFloat32, {n, k});
  const Id b = builder.input("b", DType::kFloat32, {k, n});
  const Id d = builder.output("d", DType::kFloat32, {n, n});
  fb::MatmulStepT step;
  step.m = step.n = n;
  step.k = k;
  step.a = builder.matrix(a, k, one);
  step.b = builder.matrix(b, n, one);
  step.d = builder.matrix(d, n, one);
  builder.matmul("product", std::move(step));
  open(builder.data());
  set_input(0, {}, {4, 0});
  set_input(1, {}, {0, 4});
  run({0});
  for (const float value : output()) EXPECT_EQ(value, 0);
  EXPECT_EQ(fake_cublaslt().matmuls, 0);
}

TEST_F(MatmulTest, FastestDeterministicAlgorithmIsChosen) {
  fake_cublaslt().algorithms = {
      {1, 0, 0, 30},
      {2, 0, CUBLASLT_REDUCTION_SCHEME_INPLACE, 1},      // not deterministic
      {3, 0, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 1},  // rounds partial sums
      {4, std::size_t{1} << 40, 0, 1},                   // more workspace than there is
      {5, 0, 0, 1, false},                               // does not run
      {6, 1024, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 20},
      {7, 0, 0, 25},
  };
  const Case test = plain_case();
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
  EXPECT_EQ(fake_cublaslt().algorithms_run.back(), 6);
  EXPECT_EQ(executor->memory().workspace, 32u << 20);
}

TEST_F(MatmulTest, NoAlgorithmNamesTheProduct) {
  fake_cublaslt().algorithms.clear();
  open(plan_of(plain_case()));
  const Error error = error_of([&] { executor->prepare(bound({})); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'product'"), HasSubstr("m5 n3 k4"),
                                  HasSubstr("Fake GPU"), HasSubstr("NOT_SUPPORTED")));
}

TEST_F(MatmulTest, AlignmentIsWhatTheAddressesHave) {
  Case test = plain_case();
  test.b.offset = 3;  // the library's a
  test.a.offset = 2;
  test.d.offset = 4;
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
  // All calls of one problem are at addresses of at least this alignment.
  EXPECT_THAT(fake_cublaslt().alignments, ElementsAre(4, 8, 16, 16));
}

TEST_F(MatmulTest, UserMemoryIsNotWrittenWhileTiming) {
  const Case test = plain_case();
  const auto context = graphs::Context::retain(fake().driver(), 0);
  {
    graphs::DeviceMemory memory(context, 4096);
    open(plan_of(test));
    set_inputs(test);
    auto* values = reinterpret_cast<float*>(memory.address());
    values[0] = 1234;
    executor->set_output(0, {DType::kFloat32, {15}, values, Memory::kDevice});
    executor->prepare(bound({}));
    EXPECT_GT(fake_cublaslt().matmuls, 0);
    EXPECT_EQ(values[0], 1234);
    run({});
    check(test);
    executor.reset();
  }
}

TEST_F(MatmulTest, ShortMemoryOnlyWarmsTheCacheWhileTiming) {
  const Case test = plain_case();
  // Room for the workspace and the buffers, not for what evicts the L2.
  fake().total_memory = (32u << 20) + (64u << 10);
  fake().l2_bytes = 64 << 20;
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
}

class TuningTest : public MatmulTest {
 protected:
  void SetUp() override {
    MatmulTest::SetUp();
    static int count = 0;
    folder = fs::temp_directory_path() /
             ("sinter_tuning_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    options.tuning_cache = folder.string();
    file = (folder / "cublaslt.tuning").string();
    fake_cublaslt().algorithms = {{1, 0, 0, 30}, {2, 0, 0, 20}};
  }
  void TearDown() override {
    MatmulTest::TearDown();
    fs::remove_all(folder);
  }
  std::string text() const {
    std::ifstream stream(file);
    std::stringstream content;
    content << stream.rdbuf();
    return content.str();
  }
  fs::path folder;
  std::string file;
  SessionOptions options;
};

TEST_F(TuningTest, ChosenAlgorithmIsKeptAndUsed) {
  const Case test = plain_case();
  open(plan_of(test), options);
  executor->prepare(bound({}));
  EXPECT_EQ(fake_cublaslt().heuristics, 1);
  EXPECT_THAT(text(),
              AllOf(HasSubstr("sinter-tuning 2"), HasSubstr("Fake GPU"), HasSubstr("m5 n3")));

  // Another session of the process, and algorithm 1 faster now: the choice stands.
  fake_cublaslt().algorithms = {{1, 0, 0, 1}, {2, 0, 0, 20}};
  open(plan_of(test), options);
  set_inputs(test);
  run({});
  check(test);
  EXPECT_EQ(fake_cublaslt().heuristics, 1);
  EXPECT_EQ(fake_cublaslt().algorithms_run.back(), 2);
}

TEST_F(TuningTest, AnotherLibraryVersionChoosesAnew) {
  open(plan_of(plain_case()), options);
  executor->prepare(bound({}));
  fake_cublaslt().version = 130100;
  open(plan_of(plain_case()), options);
  executor->prepare(bound({}));
  EXPECT_EQ(fake_cublaslt().heuristics, 2);
  EXPECT_THAT(text(), AllOf(HasSubstr("cuBLASLt 130000"), HasSubstr("cuBLASLt 130100")));
}

TEST_F(TuningTest, AlgorithmThatTheLibraryRefusesIsChosenAnew) {
  const Case test = plain_case();
  open(plan_of(test), options);
  executor->prepare(bound({}));
  fake_cublaslt().algorithms = {{1, 0, 0, 30}, {2, 0, 0, 20, true, false}, {3, 0, 0, 25}};
  fake_cublaslt().algorithms.erase(fake_cublaslt().algorithms.begin() + 1);
  open(plan_of(test), options);
  set_inputs(test);
  run({});
  EXPECT_EQ(fake_cublaslt().heuristics, 2);
  EXPECT_EQ(fake_cublaslt().algorithms_run.back(), 3);
}

TEST_F(TuningTest, NextToThePlan) {
  fs::create_directories(folder);
  auto data = std::make_shared<plan::PlanData>(*plan_of(plain_case()));
  data->path = (folder / "model.plan").string();
  open(data);
  executor->prepare(bound({}));
  EXPECT_TRUE(fs::exists(folder / "model.plan.tuning"));
}

TEST_F(TuningTest, FolderThatCannotBeWrittenIsTolerated) {
  options.tuning_cache = "/proc/no/such/folder";
  open(plan_of(plain_case()), options);
  executor->prepare(bound({}));
  EXPECT_EQ(fake_cublaslt().heuristics, 1);
}

TunedAlgorithm algorithm(std::uint64_t id) {
  TunedAlgorithm result;
  result.blob = {id, 0, ~id};
  result.microseconds = 1.5;
  result.note = "a note";
  return result;
}

// `open` gives one cache for a file in a process; a copy of the file is read afresh.
std::shared_ptr<TuningCache> reopened(const std::string& file, const std::string& environment) {
  static int count = 0;
  const std::string copy = file + ".copy" + std::to_string(count++);
  fs::copy_file(file, copy);
  return TuningCache::open(copy, environment);
}

TEST_F(TuningTest, FileHoldsSeveralEnvironments) {
  const auto first = TuningCache::open(file, "gpu one");
  first->store("p", algorithm(1));
  EXPECT_TRUE(first->save());
  const auto second = TuningCache::open(file, "gpu two");
  EXPECT_FALSE(second->find("p"));
  second->store("p", algorithm(2));
  EXPECT_TRUE(second->save());
  EXPECT_EQ(reopened(file, "gpu one")->find("p")->blob, algorithm(1).blob);
  EXPECT_EQ(reopened(file, "gpu two")->find("p")->blob, algorithm(2).blob);
  EXPECT_EQ(TuningCache::open(file, "gpu one"), first);
}

TEST_F(TuningTest, ThoroughSessionsTimeMoreAndAreBelieved) {
  const Case test = plain_case();
  fake_cublaslt().algorithms.clear();
  for (int id = 1; id <= 20; ++id)
    fake_cublaslt().algorithms.push_back({id, 0, 0, id == 16 ? 5.0 : id == 3 ? 20.0 : 30.0});
  const auto runs_algorithm = [&](bool thorough) {
    options.thorough_tuning = thorough;
    open(plan_of(test), options);
    set_inputs(test);
    run({});
    check(test);
    return fake_cublaslt().algorithms_run.back();
  };
  EXPECT_EQ(runs_algorithm(false), 3);
  EXPECT_EQ(runs_algorithm(true), 16);
  EXPECT_EQ(fake_cublaslt().heuristics, 2);
  EXPECT_EQ(runs_algorithm(false), 16);
  EXPECT_EQ(fake_cublaslt().heuristics, 2);
  EXPECT_THAT(text(), HasSubstr("first of 20"));
}

TEST_F(TuningTest, FilesThatUsersNameAreChecked) {
  const auto message = [&] {
    try {
      runtime::check_tuning_file(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(), HasSubstr("cannot be read"));
  const auto cache = TuningCache::open(file, "gpu");
  cache->store("p", algorithm(1));
  TunedAlgorithm schedule;
  schedule.note = "row vector=8 | of a kernel";
  cache->store("q", schedule);
  ASSERT_TRUE(cache->save());
  const auto entries = runtime::check_tuning_file(file);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_TRUE(entries[1].algorithm.blob.empty());
  EXPECT_EQ(entries[1].algorithm.note, schedule.note);

  const std::string other = file + ".other";
  TuningCache::open(other, "gpu")->store("r", algorithm(3));
  ASSERT_TRUE(TuningCache::open(other, "gpu")->save());
  ASSERT_TRUE(runtime::copy_tuning_file(file, other));
  EXPECT_EQ(runtime::check_tuning_file(other).size(), 3u);
  EXPECT_TRUE(runtime::copy_tuning_file(file + ".none", other));

  std::ofstream(file, std::ios::app) << "something else\n";
  EXPECT_THAT(message(), AllOf(HasSubstr(file + "', line 4"), HasSubstr("malformed")));
  std::ofstream(file) << "sinter-tuning 1\n";
  EXPECT_THAT(message(), AllOf(HasSubstr("line 1"), HasSubstr("sinter-tuning 2")));
}

TEST_F(TuningTest, DamagedLinesAndFilesAreIgnored) {
  const auto cache = TuningCache::open(file, "gpu");
  cache->store("p", algorithm(1));
  cache->store("q", algorithm(2));
  ASSERT_TRUE(cache->save());
  const std::string good = text();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    std::ofstream(file, std::ios::trunc) << bad;
    const auto read = reopened(file, "gpu");
    const auto p = read->find("p");
    const auto q = read->find("q");
    EXPECT_FALSE(p && q) << i;
    if (p) {
      EXPECT_EQ(p->blob, algorithm(1).blob) << i;
    }
    if (q) {
      EXPECT_EQ(q->blob, algorithm(2).blob) << i;
    }
  }
  for (std::size_t length = 0; length + 1 < good.size(); ++length) {
    std::ofstream(file, std::ios::trunc) << good.substr(0, length);
    EXPECT_FALSE(reopened(file, "gpu")->find("q")) << length;
  }
}

}  // namespace
}  // namespace sinter::testing
