// SPDX-License-Identifier: Apache-2.0
// Sessions on the CPU target: what they check, and what they give back.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>

#include "api_plans.h"

namespace sinter::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// y = 2 x + b, z = sum over the row; x [batch, seq], b [seq].
Plan double_and_sum() {
  PlanBuilder p;
  const Id batch = p.symbol("batch", 1, 8), seq = p.symbol("seq", 2, 512);
  const Id one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {batch, seq});
  const Id bias = p.input("b", DType::kFloat32, {seq});
  const Id y = p.output("y", DType::kFloat32, {batch, seq});
  const Id z = p.output("z", DType::kFloat32, {batch});
  const Id t = p.arena(DType::kFloat32, {batch, seq});
  LoopBuilder first({batch, seq}, 0);
  const Id v = first.load(first.access(x, zero, {seq, one}));
  first.store(first.access(t, zero, {seq, one}), first.op(ScalarOp::kMul, {v, first.constant(2)}));
  p.loop("double", std::move(first));
  LoopBuilder second({batch, seq}, 1);
  const Id sum = second.op(ScalarOp::kAdd, {second.load(second.access(t, zero, {seq, one})),
                                            second.load(second.access(bias, zero, {zero, one}))});
  second.store(second.access(y, zero, {seq, one}), sum);
  second.store(second.access(z, zero, {one, zero}), second.reduce(Combine::kSum, sum));
  p.loop("bias and sum", std::move(second));
  return p.build();
}

TEST(Session, Runs) {
  Session session(double_and_sum(), on_one_thread());
  set(session, "x", {2, 3}, {1, 2, 3, 4, 5, 6});
  set(session, "b", {3}, {10, 20, 30});
  session.run();
  const TensorView y = session.output("y");
  EXPECT_EQ(y.dtype, DType::kFloat32);
  EXPECT_THAT(y.shape, ElementsAre(2, 3));
  EXPECT_THAT(y.as<float>(), ElementsAre(12, 24, 36, 18, 30, 42));
  EXPECT_THAT(session.output("z").as<float>(), ElementsAre(72, 90));
  EXPECT_EQ(session.launches(), 2u);
  EXPECT_EQ(session.bytes_moved(), 32u);  // 8 read and 8 written by each of two steps
}

TEST(Session, FollowsItsInputsShapes) {
  Session session(double_and_sum(), on_one_thread());
  for (const std::int64_t n : {4, 512, 2, 4}) {
    set(session, "x", {1, n}, std::vector<float>(static_cast<std::size_t>(n), 1));
    set(session, "b", {n}, std::vector<float>(static_cast<std::size_t>(n), 1));
    session.run();
    EXPECT_THAT(session.output("z").as<float>(), ElementsAre(3.0F * static_cast<float>(n)));
    EXPECT_EQ(session.output("y").element_count(), n);
  }
}

TEST(Session, KeepsInputsBetweenRuns) {
  Session session(double_and_sum(), on_one_thread());
  set(session, "x", {1, 2}, {1, 1});
  set(session, "b", {2}, {0, 0});
  session.run();
  set(session, "b", {2}, {5, 5});
  session.run();
  EXPECT_THAT(session.output("z").as<float>(), ElementsAre(14));
}

TEST(Session, DescribesThePlan) {
  const Plan plan = double_and_sum();
  EXPECT_EQ(plan.target(), "cpu");
  EXPECT_EQ(plan.step_count(), 2u);
  const auto inputs = plan.inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].shape[1].text, "seq");
  EXPECT_EQ(inputs[0].shape[1].min, 2);
  EXPECT_EQ(inputs[0].shape[1].max, 512);
  EXPECT_EQ(plan.outputs()[1].shape[0].text, "batch");
}

TEST(Session, WrongInputsNameBothSides) {
  Session session(double_and_sum(), on_one_thread());
  const std::vector<float> data(10000, 0);
  EXPECT_THAT(usage_of([&] { set(session, "w", {1}, data); }),
              HasSubstr("there is no input 'w'; the plan has 'x', 'b'"));
  EXPECT_THAT(usage_of([&] {
                session.set_input("x", {DType::kInt64, {1, 2}, data.data()});
              }),
              HasSubstr("input 'x' is of type i64; the plan takes f32"));
  EXPECT_THAT(usage_of([&] { set(session, "x", {4}, data); }),
              HasSubstr("input 'x' has 1 dimensions, [4]; the plan takes 2, [batch, seq]"));
  EXPECT_THAT(
      usage_of([&] {
        set(session, "x", {1, 513}, data);
      }),
      HasSubstr("dimension 1 ('seq') of input 'x' is 513; the plan was compiled for 2 to 512"));
  EXPECT_THAT(usage_of([&] { set(session, "x", {1, -4}, data); }), HasSubstr("is -4"));
  EXPECT_THAT(usage_of([&] {
                session.set_input("x", {DType::kFloat32, {1, 2}, nullptr});
              }),
              HasSubstr("has no data"));
  EXPECT_THAT(usage_of([&] {
                session.set_input("x", {DType::kFloat32, {1, 2}, data.data(), Memory::kDevice});
              }),
              HasSubstr("takes host memory"));
}

TEST(Session, FixedDimensionsAreChecked) {
  PlanBuilder p;
  const Id three = p.constant(3), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {three});
  const Id y = p.output("y", DType::kFloat32, {three});
  LoopBuilder l({three}, 0);
  l.store(l.access(y, zero, {one}), l.load(l.access(x, zero, {one})));
  p.loop("copy", std::move(l));
  Session session(p.build(), on_one_thread());
  const std::vector<float> data(4, 1);
  EXPECT_THAT(usage_of([&] { set(session, "x", {4}, data); }),
              HasSubstr("dimension 0 of input 'x' is 4; the plan takes 3"));
}

TEST(Session, MissingAndContradictingInputs) {
  Session session(double_and_sum(), on_one_thread());
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("input 'x', 'b' is not set"));
  set(session, "x", {1, 3}, {1, 2, 3});
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("input 'b' is not set"));
  set(session, "b", {4}, {1, 2, 3, 4});
  EXPECT_THAT(
      usage_of([&] { session.run(); }),
      HasSubstr("'seq' is 3 in dimension 1 of input 'x', but 4 in dimension 0 of input 'b'"));
  set(session, "b", {3}, {1, 2, 3});
  session.run();
}

/// y = 2 x; x [32 * h], m [past + seq], p [past]: as a model whose sizes must be multiples, and one
/// with a cache, have them.
Plan with_expressions() {
  PlanBuilder p;
  const Id h = p.symbol("h", 1, 4), past = p.symbol("past", 0, 64), seq = p.symbol("seq", 1, 64);
  const Id rows = p.mul(p.constant(32), h), zero = p.constant(0), one = p.constant(1);
  const Id x = p.input("x", DType::kFloat32, {rows});
  p.input("m", DType::kFloat32, {p.expr(fb::ExprOp::Add, past, seq)});
  p.input("p", DType::kFloat32, {past});
  const Id y = p.output("y", DType::kFloat32, {rows});
  LoopBuilder loop({rows}, 1);
  loop.store(loop.access(y, zero, {one}),
             loop.op(ScalarOp::kMul, {loop.load(loop.access(x, zero, {one})), loop.constant(2)}));
  p.loop("double", std::move(loop));
  return p.build();
}

TEST(Session, DimensionsThatAreExpressionsAreSolved) {
  Session session(with_expressions(), on_one_thread());
  const auto run = [&](std::int64_t x, std::int64_t m, std::int64_t p) {
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    set(session, "x", {x}, std::vector<float>(size(x), 3));
    set(session, "m", {m}, std::vector<float>(size(m)));
    set(session, "p", {p}, std::vector<float>(size(p)));
    session.run();
  };
  run(64, 5, 2);
  EXPECT_THAT(session.output("y").shape, ElementsAre(64));
  EXPECT_THAT(usage_of([&] { run(65, 5, 2); }),
              HasSubstr("dimension 0 of input 'x' is 65; the plan was compiled for 32 to 128 in "
                        "steps of 32"));
  EXPECT_THAT(usage_of([&] { run(160, 5, 2); }), HasSubstr("32 to 128 in steps of 32"));
  // seq would be 0.
  EXPECT_THAT(usage_of([&] { run(64, 2, 2); }), HasSubstr("dimension 0 of input 'm' is 2"));
}

TEST(Session, AsksForARunFirst) {
  Session session(double_and_sum(), on_one_thread());
  EXPECT_THAT(usage_of([&] { session.output("y"); }), HasSubstr("before a run"));
  EXPECT_THAT(usage_of([&] { session.output("q"); }), HasSubstr("there is no output 'q'"));
  EXPECT_THAT(usage_of([&] { profile_steps(session); }), HasSubstr("before the first run"));
  EXPECT_THAT(usage_of([&] { time_compute(session, false); }), HasSubstr("before the first run"));
  EXPECT_THAT(usage_of([&] { session.bytes_moved(); }), HasSubstr("before the first run"));
}

TEST(Session, WritesToGivenMemory) {
  Session session(double_and_sum(), on_one_thread());
  set(session, "x", {1, 2}, {1, 2});
  set(session, "b", {2}, {0, 0});
  std::vector<float> mine(2, -1);
  session.set_output("y", {DType::kFloat32, {1, 2}, mine.data()});
  session.run();
  EXPECT_THAT(mine, ElementsAre(2, 4));
  EXPECT_EQ(session.output("y").data, mine.data());
  session.set_output("y", {});
  set(session, "b", {2}, {1, 1});
  session.run();
  EXPECT_THAT(mine, ElementsAre(2, 4));
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(3, 5));
  session.set_output("y", {DType::kFloat32, {2, 1}, mine.data()});
  EXPECT_THAT(usage_of([&] { session.run(); }),
              HasSubstr("output 'y' has the shape [2, 1], the output [1, 2]"));
  EXPECT_THAT(usage_of([&] {
                session.set_output("y", {DType::kFloat16, {1, 2}, mine.data()});
              }),
              HasSubstr("is of type f16, the output of f32"));
}

TEST(Session, WarmsUpAndAccounts) {
  Session session(double_and_sum(), on_one_thread());
  session.warm_up({{"x", {8, 512}}});
  const MemoryAccount account = session.memory();
  EXPECT_EQ(account.arena, 8u * 512 * 4);
  EXPECT_EQ(account.arena_without_reuse, 8u * 512 * 4);
  EXPECT_GE(account.io, 2u * 8 * 512 * 4);
  EXPECT_THAT(usage_of([&] {
                session.warm_up({{"b", {512}}});
              }),
              HasSubstr("'batch' is not known: give the shape of input 'x'"));
  EXPECT_THAT(usage_of([&] { session.warm_up({{"q", {512}}}); }), HasSubstr("no input 'q'"));
}

TEST(Session, Profiles) {
  Session session(double_and_sum(), on_one_thread());
  set(session, "x", {1, 2}, {1, 2});
  set(session, "b", {2}, {0, 0});
  session.run();
  const auto times = profile_steps(session);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].name, "double");
  EXPECT_EQ(times[0].bytes, 16u);
  EXPECT_EQ(times[0].arithmetic, "Scalar");
  ASSERT_EQ(times[0].parts.size(), 1u);
  EXPECT_EQ(times[0].parts[0].name, "loops");
  EXPECT_EQ(times[0].parts[0].launches, 1u);
  EXPECT_FALSE(times[0].parts[0].kernel);
  EXPECT_EQ(times[0].parts[0].microseconds, times[0].microseconds);
  EXPECT_GT(times[1].microseconds, 0);
  EXPECT_GT(time_compute(session, false), 0);
  EXPECT_GT(time_compute(session, true), 0);
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 4));
}

TEST(Session, MeasuresTheMachine) {
  Session session(double_and_sum(), on_one_thread());
  const MachineRates rates = measure_rates(session);
  EXPECT_THAT(rates.machine, HasSubstr("1 thread"));
  EXPECT_GT(rates.copy_bytes_per_second, 0);
  EXPECT_GT(rates.copy_bytes, 0u);
  for (const auto* arithmetic : {"Scalar", "Single", "Half", "Double", "Int8"})
    EXPECT_GT(rates.operations_per_second.at(arithmetic), 0) << arithmetic;
  EXPECT_THAT(rates.operations_from, HasSubstr("measured"));
  EXPECT_THAT(rates.timing, HasSubstr("wall time"));
}

TEST(Session, ImpossibleSizesAreOutOfMemory) {
  PlanBuilder p;
  const Id n = p.symbol("n", 1, std::int64_t{1} << 40), one = p.constant(1), zero = p.constant(0);
  const Id huge = p.constant(std::int64_t{1} << 42);
  const Id x = p.input("x", DType::kFloat32, {n});
  const Id t = p.arena(DType::kFloat32, {huge});
  const Id y = p.output("y", DType::kFloat32, {n});
  LoopBuilder first({n}, 0);
  first.store(first.access(t, zero, {one}), first.load(first.access(x, zero, {one})));
  p.loop("one", std::move(first));
  LoopBuilder second({n}, 0);
  second.store(second.access(y, zero, {one}), second.load(second.access(t, zero, {one})));
  p.loop("two", std::move(second));
  Session session(p.build(), on_one_thread());
  set(session, "x", {2}, {1, 2});
  try {
    session.run();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("the arena needs"));
  }
}

TEST(Session, NegativeThreadsAreRefused) {
  SessionOptions options;
  options.threads = -1;
  EXPECT_THAT(usage_of([&] { Session(double_and_sum(), options); }), HasSubstr("threads is -1"));
}

TEST(Session, SessionsOfOnePlanRunInParallel) {
  const Plan plan = double_and_sum();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      SessionOptions options;
      options.threads = 1 + t % 2;
      Session session(plan, options);
      for (int i = 0; i < 50; ++i) {
        const std::int64_t n = 2 + (i * 7 + t) % 500;
        const auto size = static_cast<std::size_t>(n);
        set(session, "x", {2, n}, std::vector<float>(2 * size, static_cast<float>(t)));
        set(session, "b", {n}, std::vector<float>(size, 1));
        session.run();
        for (const float z : session.output("z").as<float>())
          if (z != static_cast<float>(n * (2 * t + 1))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, UseFromTwoThreadsIsDetected) {
  PlanBuilder p;
  const Id n = p.constant(1 << 22), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {n});
  const Id y = p.output("y", DType::kFloat32, {n});
  LoopBuilder l({n}, 0);
  Id v = l.load(l.access(x, zero, {one}));
  for (int i = 0; i < 30; ++i) v = l.op(ScalarOp::kSin, {v});
  l.store(l.access(y, zero, {one}), v);
  p.loop("slow", std::move(l));
  Session session(p.build(), on_one_thread());
  set(session, "x", {1 << 22}, std::vector<float>(1 << 22, 1));
  std::atomic<bool> done{false};
  std::thread runner([&] {
    // Until the other thread has met a run, or gives up.
    while (!done) {
      try {
        session.run();
      } catch (const Error&) {  // the other one was faster
      }
    }
  });
  std::string message;
  for (int i = 0; i < 100000000 && message.empty(); ++i) {
    try {
      (void)session.launches();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      message = error.what();
    }
  }
  done = true;
  runner.join();
  EXPECT_THAT(message, HasSubstr("used from two threads at once"));
}

}  // namespace
}  // namespace sinter::testing
