// SPDX-License-Identifier: Apache-2.0
// Operators that a library computes, on the CPU.
#include "runtime/operators/host_operators.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>
#include <sinter/sinter_c.h>

#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLibrary = SINTER_TEST_OPERATORS;
constexpr const char* kOldLibrary = SINTER_TEST_OPERATORS_OLD;
constexpr const char* kNoTable = SINTER_TEST_OPERATORS_NONE;

template <typename Body>
std::string error_of(ErrorCode code, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

/// y [n] = name(x [n, 3]), or of x's shape.
PlanBuilder builder_of(const std::string& name, bool is_row, const std::string& library = "") {
  PlanBuilder plan;
  const Id n = plan.symbol("n"), three = plan.constant(3);
  const std::vector<Id> in = {n, three}, out = is_row ? std::vector<Id>{n} : in;
  fb::HostStepT host;
  host.operator_name = name;
  host.library = library;
  const auto tensor = [](Id buffer, const std::vector<Id>& shape) {
    auto made = std::make_unique<fb::HostTensorT>();
    made->buffer = buffer;
    made->shape = shape;
    return made;
  };
  host.inputs.push_back(tensor(plan.input("x", DType::kFloat32, in), in));
  host.outputs.push_back(tensor(plan.output("y", DType::kFloat32, out), out));
  if (name == "test::RowSum") {
    auto bias = std::make_unique<fb::HostAttributeT>(),
         scale = std::make_unique<fb::HostAttributeT>();
    bias->name = "bias";
    bias->integer = 10;
    scale->name = "scale";
    scale->is_float = true;
    scale->real = 0.5;
    host.attributes.push_back(std::move(bias));
    host.attributes.push_back(std::move(scale));
  }
  plan.host("call", std::move(host));
  return plan;
}

Plan plan_of(const std::string& name, bool is_row = false) {
  return builder_of(name, is_row).build();
}

std::vector<float> run(Session& session, std::int64_t rows) {
  std::vector<float> x(static_cast<std::size_t>(3 * rows));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  session.set_input("x", {rows, 3}, x);
  session.run();
  const auto y = session.output("y").as<float>();
  return {y.begin(), y.end()};
}

TEST(HostOperators, ComputeWithAttributesAndWorkspace) {
  const Plan plan = plan_of("test::RowSum", true).with_operators({OperatorLibrary::open(kLibrary)});
  EXPECT_THAT(plan.custom_code(), ElementsAre("test::RowSum"));
  EXPECT_THAT(plan.host_operators(), ElementsAre("test::RowSum"));
  Session session(plan);
  EXPECT_THAT(run(session, 2), ElementsAre(11.5F, 16.0F));
  EXPECT_THAT(run(session, 3), ElementsAre(11.5F, 16.0F, 20.5F));
  EXPECT_THAT(run(session, 2), ElementsAre(11.5F, 16.0F));
  EXPECT_GE(session.memory().workspace, 16u);
}

TEST(HostOperators, LibrariesOfASessionComeFirst) {
  SessionOptions options;
  options.operator_libraries.push_back(OperatorLibrary::open(kLibrary));
  Session session(plan_of("test::Copy"), options);
  EXPECT_THAT(run(session, 1), ElementsAre(0, 1, 2));

  // A program's own table, in front of the library's.
  static const auto twice = [](const sinter_operator_call* call) -> std::int32_t {
    ++*static_cast<int*>(call->user);
    for (int i = 0; i < 3; ++i)
      static_cast<float*>(call->outputs[0].data)[i] =
          2 * static_cast<const float*>(call->inputs[0].data)[i];
    return 0;
  };
  int calls = 0;
  const auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> is_alive = owner;
  const sinter_operator own = {"test::Copy", &calls, nullptr, nullptr, twice, nullptr};
  const sinter_operator_table table = {SINTER_OPERATOR_ABI_VERSION, sizeof own, 1, &own};
  {
    options.operator_libraries.insert(options.operator_libraries.begin(),
                                      OperatorLibrary::of_table(table, "mine", owner));
    Session other(plan_of("test::Copy"), std::move(options));
    EXPECT_THAT(run(other, 1), ElementsAre(0, 2, 4));
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(is_alive.use_count(), 2);
  }
  EXPECT_EQ(is_alive.use_count(), 1);
}

TEST(HostOperators, MissingOnesAreNamed) {
  const Plan plan = builder_of("test::Nowhere", false, "libnowhere.so").build();
  EXPECT_THAT(error_of(ErrorCode::kUsage, [&] { Session session(plan); }),
              AllOf(HasSubstr("'test::Nowhere' (of 'libnowhere.so')"),
                    HasSubstr("No library was named"), HasSubstr("--op-library FILE")));
  EXPECT_THAT(error_of(ErrorCode::kUsage,
                       [&] { (void)plan.with_operators({OperatorLibrary::open(kLibrary)}); }),
              AllOf(HasSubstr("'test::Nowhere'"), HasSubstr(kLibrary)));
  // The library has a function for GPUs alone.
  EXPECT_THAT(
      error_of(
          ErrorCode::kUsage,
          [&] { (void)plan_of("test::OnGpu").with_operators({OperatorLibrary::open(kLibrary)}); }),
      AllOf(HasSubstr("'test::OnGpu', whose library has no 'run' for it"),
            HasSubstr("--target=cuda")));
}

TEST(HostOperators, WhatFunctionsSayIsTheError) {
  const auto failure = [](const std::string& name, bool is_row, ErrorCode code) {
    return error_of(code, [&] {
      Session session(plan_of(name, is_row).with_operators({OperatorLibrary::open(kLibrary)}));
      run(session, 2);
    });
  };
  EXPECT_THAT(
      failure("test::Fail", false, ErrorCode::kDevice),
      AllOf(HasSubstr("step 'call'"), HasSubstr("operator 'test::Fail': its 'run' failed with "
                                                "code 7: there is no ink")));
  EXPECT_THAT(failure("test::FailSilently", false, ErrorCode::kDevice),
              AllOf(HasSubstr("failed with code -1"), Not(HasSubstr("-1:"))));
  EXPECT_THAT(failure("test::NoSizes", false, ErrorCode::kDevice),
              HasSubstr("its 'infer_shapes' failed with code 7: there is no ink"));
  EXPECT_THAT(failure("test::OtherSizes", true, ErrorCode::kUsage),
              AllOf(HasSubstr("the sizes [2] in the plan, and [3]"), HasSubstr("--op")));
  EXPECT_THAT(failure("test::Greedy", false, ErrorCode::kOutOfMemory), HasSubstr("test::Greedy"));
}

TEST(HostOperators, AFailedRunLeavesTheSessionUsable) {
  static bool fails = true;
  static const auto sometimes = [](const sinter_operator_call* call) -> std::int32_t {
    *static_cast<float*>(call->outputs[0].data) = 5;
    return fails ? 1 : 0;
  };
  const sinter_operator own = {"test::Copy", nullptr, nullptr, nullptr, sometimes, nullptr};
  const sinter_operator_table table = {SINTER_OPERATOR_ABI_VERSION, sizeof own, 1, &own};
  Session session(plan_of("test::Copy").with_operators({OperatorLibrary::of_table(table, "mine")}));
  error_of(ErrorCode::kDevice, [&] { run(session, 1); });
  fails = false;
  EXPECT_EQ(run(session, 1)[0], 5);
}

TEST(OperatorLibrary, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(error_of(ErrorCode::kUsage, [] { OperatorLibrary::open("/nowhere/ops.so"); }),
              AllOf(HasSubstr("'/nowhere/ops.so' cannot be opened"), HasSubstr("No such file")));
  EXPECT_THAT(error_of(ErrorCode::kUsage, [] { OperatorLibrary::open(__FILE__); }),
              HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of(ErrorCode::kUsage, [] { OperatorLibrary::open(kNoTable); }),
              HasSubstr("does not export 'sinter_operators'"));
  EXPECT_THAT(error_of(ErrorCode::kUsage, [] { OperatorLibrary::open(kOldLibrary); }),
              AllOf(HasSubstr("version 77"), HasSubstr("this Sinter has version 1")));
  std::vector<std::string> names;
  const OperatorLibrary library = OperatorLibrary::open(kLibrary);
  for (const sinter_operator& one : library.operators()) names.emplace_back(one.name);
  EXPECT_THAT(names, Contains("test::RowSum"));
}

TEST(OperatorLibrary, SaysWhatIsWrongWithATable) {
  static const auto nothing = [](const sinter_operator_call*) -> std::int32_t { return 0; };
  const sinter_operator good = {"a::B", nullptr, nullptr, nullptr, nothing, nullptr};
  const auto refusal = [](std::vector<sinter_operator> operators, std::uint32_t size) {
    return error_of(ErrorCode::kUsage, [&] {
      OperatorLibrary::of_table(
          {SINTER_OPERATOR_ABI_VERSION, size, operators.size(), operators.data()}, "mine");
    });
  };
  EXPECT_THAT(refusal({good, good}, sizeof good), HasSubstr("has operator 'a::B' twice"));
  EXPECT_THAT(refusal({good}, sizeof good - 8), HasSubstr("sizeof(sinter_operator)"));
  sinter_operator bad = good;
  bad.name = "";
  EXPECT_THAT(refusal({good, bad}, sizeof good), HasSubstr("operator 1 has no name"));
  bad = good;
  bad.run = nullptr;
  EXPECT_THAT(refusal({bad}, sizeof good), HasSubstr("neither 'run' nor 'enqueue'"));
  // Operators of a later header are longer.
  struct Longer {
    sinter_operator own;
    void* more;
  };
  bad.name = "a::C";
  bad.run = nothing;
  const Longer longer[] = {{good, nullptr}, {bad, nullptr}};
  const OperatorLibrary library = OperatorLibrary::of_table(
      {SINTER_OPERATOR_ABI_VERSION, sizeof(Longer), 2, &longer[0].own}, "mine");
  EXPECT_STREQ(library.operators()[1].name, "a::C");
}

TEST(HostOperators, PlansThatMakeNoSenseAreRefused) {
  const auto refusal = [](const auto& change) {
    PlanBuilder plan = builder_of("test::Copy", false);
    change(plan, *plan.meta.steps[0]->work.AsHostStep());
    return error_of(ErrorCode::kInvalidPlan, [&] { (void)plan.build(); });
  };
  using Step = fb::HostStepT;
  EXPECT_THAT(refusal([](PlanBuilder& plan, Step&) { plan.meta.custom_code.clear(); }),
              HasSubstr("'test::Copy' is not among the plan's custom code"));
  EXPECT_THAT(refusal([](PlanBuilder&, Step& step) { step.inputs[0]->buffer = 99; }),
              HasSubstr("its input is 99"));
  EXPECT_THAT(refusal([](PlanBuilder&, Step& step) { step.outputs[0]->shape[0] = 99; }),
              HasSubstr("a size is 99"));
  EXPECT_THAT(refusal([](PlanBuilder&, Step& step) { step.outputs.clear(); }),
              HasSubstr("it has no outputs"));
  EXPECT_THAT(
      refusal([](PlanBuilder&, Step& step) { step.outputs[0]->buffer = step.inputs[0]->buffer; }),
      HasSubstr("where another of its tensors does"));
  EXPECT_THAT(refusal([](PlanBuilder&, Step& step) {
                step.attributes.push_back(std::make_unique<fb::HostAttributeT>());
              }),
              HasSubstr("an attribute without a name"));
  // Tensors that do not fit their buffers are found when sizes are known.
  PlanBuilder plan = builder_of("test::Copy", false);
  auto& shape = plan.meta.steps[0]->work.AsHostStep()->outputs[0]->shape;
  shape[0] = plan.mul(shape[0], plan.constant(2));
  Session session(plan.build().with_operators({OperatorLibrary::open(kLibrary)}));
  EXPECT_THAT(error_of(ErrorCode::kUsage, [&] { run(session, 2); }), HasSubstr("its tensor"));
}

TEST(HostOperators, AreNamedThroughTheCAbi) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "sinter_host_operators.plan").string();
  plan::write_plan(builder_of("test::Copy", false).parts(), path);
  sinter_plan* plan = nullptr;
  sinter_load_options options = {sizeof options};
  options.refuse_custom_code = 1;
  EXPECT_EQ(sinter_plan_load_with(path.c_str(), &options, &plan), SINTER_ERROR_INVALID_PLAN);
  EXPECT_THAT(sinter_last_error(), HasSubstr("'test::Copy'"));
  options.refuse_custom_code = 0;
  options.operator_library_count = 1;
  EXPECT_EQ(sinter_plan_load_with(path.c_str(), &options, &plan), SINTER_ERROR_USAGE);
  EXPECT_THAT(sinter_last_error(), HasSubstr("operator_libraries is NULL"));
  const char* libraries[] = {kLibrary};
  options.operator_libraries = libraries;
  ASSERT_EQ(sinter_plan_load_with(path.c_str(), &options, &plan), SINTER_OK) << sinter_last_error();
  sinter_plan_facts facts = {sizeof facts};
  ASSERT_EQ(sinter_plan_get_facts(plan, &facts), SINTER_OK);
  ASSERT_EQ(facts.custom_code_count, 1u);
  EXPECT_STREQ(facts.custom_code[0], "test::Copy");
  sinter_session* session = nullptr;
  EXPECT_EQ(sinter_session_create(plan, nullptr, &session), SINTER_OK) << sinter_last_error();
  sinter_session_free(session);
  sinter_plan_free(plan);
  // Without libraries it loads, to be looked at, and does not run.
  ASSERT_EQ(sinter_plan_load_with(path.c_str(), nullptr, &plan), SINTER_OK);
  EXPECT_EQ(sinter_session_create(plan, nullptr, &session), SINTER_ERROR_USAGE);
  sinter_plan_free(plan);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sinter::testing
