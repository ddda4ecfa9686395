// SPDX-License-Identifier: Apache-2.0
// Matrix products: how they are put to the library, against a plain loop, and how algorithms are
// chosen.
#include "runtime/plan/matmul_problem.h"
#include "tests/runtime/cuda/matmul_fixture.h"

namespace sinter::testing {
namespace {

using plan::make_matmul_problem;
using plan::MatmulProblem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MatmulCases : public MatmulTest, public ::testing::WithParamInterface<ProductCase> {};

TEST_P(MatmulCases, GivesTheProduct) {
  const ProductCase& test = GetParam();
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
  EXPECT_EQ(executor->launches(), static_cast<std::size_t>(test.calls));
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulCases,
    ::testing::Values(
        ProductCase{"plain", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}},
        ProductCase{"a_transposed", 3, 5, 4, {}, {1, 3}, {5, 1}, {5, 1}},
        ProductCase{"b_transposed", 3, 5, 4, {}, {4, 1}, {1, 4}, {5, 1}},
        ProductCase{"both_transposed", 3, 5, 4, {}, {1, 3}, {1, 4}, {5, 1}},
        ProductCase{"d_transposed", 3, 5, 4, {}, {4, 1}, {5, 1}, {1, 3}},
        ProductCase{"all_transposed", 3, 5, 4, {}, {1, 3}, {1, 4}, {1, 3}},
        ProductCase{"padded_rows", 3, 5, 4, {}, {9, 1}, {7, 1}, {11, 1}},
        ProductCase{"offsets", 3, 5, 4, {}, {4, 1, {}, 8}, {5, 1, {}, 16}, {5, 1, {}, 4}},
        ProductCase{"one_row", 1, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}},
        ProductCase{"one_column", 3, 1, 4, {}, {4, 1}, {1, 1}, {1, 1}},
        ProductCase{"one_of_all", 1, 1, 1, {}, {1, 1}, {1, 1}, {1, 1}},
        ProductCase{"one_row_strided", 1, 5, 4, {}, {77, 1}, {5, 1}, {33, 1}},
        ProductCase{"outer_product", 3, 5, 1, {}, {1, 1}, {5, 1}, {5, 1}},
        ProductCase{
            "alpha", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::None, 0.25f},
        ProductCase{"bias", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true},
        ProductCase{
            "bias_relu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true, fb::Activation::Relu},
        ProductCase{"relu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::Relu},
        ProductCase{
            "gelu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, false, fb::Activation::GeluTanh},
        ProductCase{
            "bias_gelu", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, {}, true, fb::Activation::GeluTanh},
        ProductCase{"residual", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}, MatrixLayout{8, 1}},
        ProductCase{"residual_bias_relu_alpha",
                    3,
                    5,
                    4,
                    {},
                    {4, 1},
                    {5, 1},
                    {5, 1},
                    MatrixLayout{5, 1},
                    true,
                    fb::Activation::Relu,
                    0.5f},
        ProductCase{
            "residual_d_transposed", 3, 5, 4, {}, {4, 1}, {5, 1}, {1, 3}, MatrixLayout{1, 4}},
        ProductCase{"batch", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {20}}, {5, 1, {15}}},
        ProductCase{
            "batch_with_bias", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {20}}, {5, 1, {15}}, {}, true},
        ProductCase{
            "batches_merge", 3, 5, 4, {2, 3}, {4, 1, {36, 12}}, {5, 1, {60, 20}}, {5, 1, {45, 15}}},
        ProductCase{"batches_of_one_vanish",
                    3,
                    5,
                    4,
                    {1, 6, 1},
                    {4, 1, {99, 12, 98}},
                    {5, 1, {97, 20, 96}},
                    {5, 1, {95, 15, 94}}},
        // b has no batch: the rows of all batches are one matrix.
        ProductCase{"batch_in_rows", 3, 5, 4, {6}, {4, 1, {12}}, {5, 1, {0}}, {5, 1, {15}}},
        ProductCase{"batch_in_rows_with_all",
                    3,
                    5,
                    4,
                    {2, 3},
                    {4, 1, {36, 12}},
                    {5, 1, {0, 0}},
                    {5, 1, {45, 15}},
                    MatrixLayout{5, 1, {45, 15}},
                    true,
                    fb::Activation::Relu},
        ProductCase{
            "single_rows_become_rows", 1, 5, 4, {6}, {4, 1, {8}}, {5, 1, {0}}, {5, 1, {10}}},
        ProductCase{"a_without_batch", 3, 5, 4, {6}, {4, 1, {0}}, {5, 1, {20}}, {5, 1, {15}}},
        ProductCase{
            "transposed_a_does_not_fold", 3, 5, 4, {6}, {1, 3, {12}}, {5, 1, {0}}, {5, 1, {15}}},
        // attention: [batch, heads] with the result as [batch, row, head, column]
        ProductCase{"heads_interleaved",
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
        ProductCase{"heads_of_one_batch",
                    3,
                    5,
                    4,
                    {1, 7},
                    {28, 1, {84, 4}},
                    {1, 28, {140, 4}},
                    {5, 1, {105, 15}}},
        ProductCase{"three_batches",
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

/// A product of [3, 4] and weights stored as [5, 4], of bytes into 32 bits.
std::shared_ptr<const plan::PlanData> plan_of_bytes(DType operands) {
  CudaPlanBuilder builder;
  const auto constant = [&](std::int64_t value) { return builder.constant(value); };
  fb::MatmulStepT step;
  step.m = constant(3), step.n = constant(5), step.k = constant(4);
  step.a =
      builder.matrix(builder.input("a", operands, {constant(12)}), constant(4), constant(1), {});
  step.b =
      builder.matrix(builder.input("b", operands, {constant(20)}), constant(1), constant(4), {});
  step.d = builder.matrix(builder.output("d", DType::kInt32, {constant(15)}), constant(5),
                          constant(1), {});
  builder.matmul("product", std::move(step));
  return builder.data();
}

TEST_F(MatmulTest, OtherBytesAreRefused) {
  open(plan_of_bytes(DType::kUInt8));
  try {
    run({});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("are of floats and of signed bytes, not of u8"));
  }
}

TEST_F(MatmulTest, MergedBatchesAreOneProblem) {
  const ProductCase test{"", 3, 5, 4, {2, 3}, {4, 1, {36, 12}}, {5, 1, {0, 0}}, {5, 1, {45, 15}}};
  const auto data = plan_of(test);
  const auto values = plan::evaluate_expressions(data->meta, {});
  const plan::MatmulProblem problem =
      plan::make_matmul_problem(data->meta, *data->meta.steps[0]->work.AsMatmulStep(), values);
  EXPECT_TRUE(problem.swapped);
  EXPECT_EQ(problem.m, 5);  // column-major: the plan's n
  EXPECT_EQ(problem.n, 18);
  EXPECT_EQ(problem.batch, 1);
  EXPECT_EQ(problem.calls.size(), 1u);
}

TEST_F(MatmulTest, WhatNoLibraryDescribesIsRefused) {
  const auto refused = [&](const ProductCase& test) {
    open(plan_of(test));
    const Error error = error_of([&] { executor->prepare(bound({})); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("'product'"));
    return std::string(error.what());
  };
  ProductCase overlapping = plain_case();
  overlapping.a = {0, 1};
  EXPECT_THAT(refused(overlapping), HasSubstr("neither row-major nor column-major"));
  ProductCase mixed = plain_case();
  mixed.residual = MatrixLayout{1, 3};
  EXPECT_THAT(refused(mixed), HasSubstr("not stored alike"));
  ProductCase bias = plain_case();
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
  EXPECT_THAT(error_of([&] { plan::make_matmul_problem(data->meta, step, values); }).what(),
              HasSubstr("beyond its buffer"));
  values[step.m] = std::int64_t{1} << 62;
  EXPECT_EQ(error_of([&] { plan::make_matmul_problem(data->meta, step, values); }).code(),
            ErrorCode::kInvalidPlan);
}

TEST_F(MatmulTest, ActivationsThatTheLibraryLacksAreOurDefect) {
  ProductCase test = plain_case();
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
  const ProductCase test = plain_case();
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
  ProductCase test = plain_case();
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
  const ProductCase test = plain_case();
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
  const ProductCase test = plain_case();
  // Room for the workspace and the buffers, not for what evicts the L2.
  fake().total_memory = (32u << 20) + (64u << 10);
  fake().l2_bytes = 64 << 20;
  open(plan_of(test));
  set_inputs(test);
  run({});
  check(test);
}

TEST_F(MatmulTest, WithoutTheDriversAssemblerTheCacheIsWarmWhileTiming) {
  const ProductCase test = plain_case();
  open(plan_of(test));  // loads no module: the plan is a library's product
  set_inputs(test);
  fake().fail_next["cuModuleLoadData"] = CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  run({});
  check(test);
}

}  // namespace
}  // namespace sinter::testing
