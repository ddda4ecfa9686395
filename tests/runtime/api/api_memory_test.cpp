// SPDX-License-Identifier: Apache-2.0
// Whose memory a session uses, and that it asks for none where it should not.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/allocator.h>
#include <sinter/devices.h>
#include <sinter/log.h>
#include <unistd.h>

#include "api_plans.h"
#include "tests/runtime/allocation_count.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Memory, InputsAreUsedWhereTheyLie) {
  Session session(doubling().build(), on_one_thread());
  std::vector<float> x{1, 2, 3};
  session.use_input("x", TensorView::of({3}, x));
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 4, 6));
  // The next run sees what lies there now; a copy would not.
  x[1] = 50;
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 100, 6));
  EXPECT_EQ(session.memory().io, 64u);  // of the output alone
  session.set_input("x", {1}, std::vector<float>{7});
  x[0] = 0;
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(14));
  // An element's alignment is enough.
  session.use_input("x", TensorView::of({2}, std::span(x).subspan(1)));
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(100, 6));
  session.use_input("x", TensorView{DType::kFloat32, {1}, x.data()});
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(0));
}

TEST(Memory, ProductsReadAndWriteUnalignedMemoryOfTheUsers) {
  PlanBuilder p;
  const Id four = p.constant(4), one = p.constant(1);
  const Id a = p.input("a", DType::kFloat32, {four, four});
  const Id b = p.input("b", DType::kFloat32, {four, four});
  const Id d = p.output("d", DType::kFloat32, {four, four});
  fb::MatmulStepT product;
  product.m = product.n = product.k = four;
  product.a = p.matrix(a, four, one);
  product.b = p.matrix(b, four, one);
  product.d = p.matrix(d, four, one);
  p.matmul("product", std::move(product));
  Session session(p.build(), on_one_thread());
  alignas(64) float memory[3][20] = {};
  for (int i = 0; i < 16; ++i) {
    memory[0][1 + i] = static_cast<float>(i);
    memory[1][1 + i] = i % 5 == 0 ? 2.0F : 0.0F;
  }
  session.use_input("a", TensorView{DType::kFloat32, {4, 4}, memory[0] + 1});
  session.use_input("b", TensorView{DType::kFloat32, {4, 4}, memory[1] + 1});
  session.set_output("d", MutableTensorView{DType::kFloat32, {4, 4}, memory[2] + 1});
  session.run();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(memory[2][1 + i], 2.0F * static_cast<float>(i));
  EXPECT_EQ(memory[2][0], 0);
  EXPECT_EQ(memory[2][17], 0);
}

TEST(Memory, RepeatedShapesAllocateNothing) {
  if (!counts_allocations()) GTEST_SKIP() << "this build's sanitizer counts them itself";
  Session session(doubling().build(), on_one_thread());
  const std::vector<float> x(1000, 1);
  TensorView views[2] = {TensorView::of({1000}, x),
                         TensorView::of({10}, std::span(x).subspan(0, 10))};
  std::vector<float> mine(10);
  const MutableTensorView target = MutableTensorView::of({10}, mine), own;
  float sum = 0;
  const auto round = [&] {
    for (const TensorView& view : views) {
      session.set_input(0, view);
      session.run();
      sum += session.output(0).as<float>()[0];
      session.use_input(0, view);
      session.run_async();
      session.await();
      sum += session.output(0).as<float>()[0];
    }
    session.set_output(0, target);
    session.run();
    session.set_output(0, own);
    sum += mine[9];
  };
  round();
  round();
  const std::size_t before = allocations();
  round();
  EXPECT_EQ(allocations() - before, 0u);
  EXPECT_EQ(sum, 30);
  const auto one = std::make_unique<int>(1);  // the counter counts
  EXPECT_EQ(allocations() - before, 1u);
}

/// d = max(a times a weight, 0), its rows' sums beside it, for any number of rows.
Plan product_and_sums() {
  constexpr std::int64_t kSize = 96;
  PlanBuilder p;
  const Id n = p.constant(kSize), one = p.constant(1), zero = p.constant(0), rows = p.symbol("n");
  const Id a = p.input("a", DType::kFloat32, {rows, n});
  const Id w = p.weight(DType::kFloat32, std::vector<float>(kSize * kSize, 0.5F));
  const Id d = p.arena(DType::kFloat32, {rows, n});
  const Id sums = p.output("sums", DType::kFloat32, {rows});
  fb::MatmulStepT product;
  product.m = rows;
  product.n = product.k = n;
  product.activation = fb::Activation::Relu;
  product.a = p.matrix(a, n, one);
  product.b = p.matrix(w, n, one);
  product.d = p.matrix(d, n, one);
  p.matmul("product", std::move(product));
  LoopBuilder loop({rows, n}, 1);
  const Id from = loop.access(d, zero, {n, one}), to = loop.access(sums, zero, {one, zero});
  loop.store(to, loop.reduce(Combine::kSum, loop.load(from)));
  p.loop("sums", std::move(loop));
  return p.build();
}

TEST(Memory, ProductsAllocateNothingOfOurs) {
  if (!counts_allocations()) GTEST_SKIP() << "this build's sanitizer counts them itself";
  SessionOptions options;
  options.threads = 2;
  Session session(product_and_sums(), options);
  const std::vector<float> a(300 * 96, 1);
  const TensorView view = TensorView::of({300, 96}, a);
  const auto round = [&] {
    session.set_input(0, view);
    session.run();
  };
  // Warm is when every thread has taken a part once: on a busy machine not in the first rounds.
  constexpr int kQuiet = 20;
  int quiet = 0;
  for (int i = 0; i < 500 && quiet < kQuiet; ++i) {
    const std::size_t before = allocations();
    round();
    quiet = allocations() == before ? quiet + 1 : 0;
  }
  EXPECT_EQ(quiet, kQuiet);
  EXPECT_EQ(session.output(0).as<float>()[299], 96 * 48.0F);
}

/// What is made once for a plan or for a shape is shared, or made again, without a race.
TEST(Memory, EightSessionsOfOnePlanRunAtOnce) {
  const Plan plan = product_and_sums();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      SessionOptions options;
      options.threads = 2;
      Session session(plan, options);
      const std::vector<float> a(40 * 96, 1);
      for (std::size_t i = 0; i < 30; ++i) {
        const std::size_t rows = 1 + (i + t * 5) % 40;
        session.set_input(0, TensorView::of({static_cast<std::int64_t>(rows), 96},
                                            std::span(a).subspan(0, rows * 96)));
        session.run();
        wrong += session.output(0).as<float>()[rows - 1] != 96 * 48.0F;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

/// Bytes of this process in memory.
std::size_t resident_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Memory, StaysFlatWhileShapesVary) {
  if (!counts_allocations()) GTEST_SKIP() << "this build's sanitizer keeps what is freed";
  SessionOptions options;
  options.threads = 2;
  Session session(product_and_sums(), options);
  constexpr std::size_t kMostRows = 500;
  const std::vector<float> a(kMostRows * 96, 1);
  std::size_t settled = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const std::size_t rows = 1 + i * 7919 % kMostRows;
    session.set_input(0, TensorView::of({static_cast<std::int64_t>(rows), 96},
                                        std::span(a).subspan(0, rows * 96)));
    session.run();
    ASSERT_EQ(session.output(0).as<float>()[rows - 1], 96 * 48.0F);
    if (i == 2000) settled = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), settled + (5 << 20));
}

class Pool final : public Allocator {
 public:
  void* allocate(Memory memory, int device, std::size_t bytes,
                 std::size_t alignment) noexcept override {
    EXPECT_EQ(memory, Memory::kHost);
    EXPECT_EQ(device, -1);
    if (bytes > limit) return nullptr;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    alive[data] = bytes;
    return data;
  }
  void deallocate(void* data, Memory, int, std::size_t bytes, std::size_t) noexcept override {
    EXPECT_EQ(alive[data], bytes);
    alive.erase(data);
    std::free(data);
  }
  std::map<void*, std::size_t> alive;
  std::size_t limit = SIZE_MAX;
};

TEST(Memory, IsTheProgramsAllocators) {
  const auto pool = std::make_shared<Pool>();
  SessionOptions options = on_one_thread();
  options.allocator = pool;
  {
    Session session(doubling().build(), options);
    session.set_input("x", {1000}, std::vector<float>(1000, 1));
    session.run();
    std::size_t held = 0;
    for (const auto& [data, bytes] : pool->alive) held += bytes;
    const MemoryAccount account = session.memory();
    EXPECT_GE(held, account.io + account.workspace + account.arena);
    EXPECT_EQ(pool->alive.count(const_cast<void*>(session.output("y").data)), 1u);
    pool->limit = 0;
    try {
      session.set_input("x", {2000}, std::vector<float>(2000, 1));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("input 'x'"), HasSubstr("allocator")));
    }
    session.run();  // with the input as it was
    EXPECT_EQ(session.output("y").element_count(), 1000);
  }
  EXPECT_TRUE(pool->alive.empty());
}

TEST(Memory, AnOutputThatFoundNoMemoryIsNotShown) {
  const auto pool = std::make_shared<Pool>();
  SessionOptions options = on_one_thread();
  options.allocator = pool;
  Session session(doubling().build(), options);
  const std::vector<float> x(1 << 16, 1);
  session.use_input(0, TensorView::of({100}, std::span(x).first(100)));
  session.run();
  pool->limit = 1 << 12;
  session.use_input(0, TensorView::of({1 << 16}, x));
  EXPECT_THROW(session.run(), Error);
  EXPECT_THAT(usage_of([&] { session.output(0); }), HasSubstr("before a run"));
  EXPECT_THROW(session.warm_up({{"x", {1 << 16}}}), Error);
  EXPECT_THAT(usage_of([&] { session.output(0); }), HasSubstr("before a run"));
  pool->limit = SIZE_MAX;
  session.run();
  EXPECT_EQ(session.output(0).as<float>()[65535], 2);
}

TEST(Memory, AStateThatFoundNoMemoryIsZeros) {
  const auto pool = std::make_shared<Pool>();
  SessionOptions options = on_one_thread();
  options.allocator = pool;
  Session session(summing().build(), options);
  session.set_input("sum", {2}, std::vector<float>{5, 5});
  pool->limit = 1 << 12;
  EXPECT_THROW(session.set_input("sum", {1 << 16}, std::vector<float>(1 << 16, 1)), Error);
  pool->limit = SIZE_MAX;
  session.set_input("x", {3}, std::vector<float>{1, 2, 3});
  session.run();  // a shape of its own
  EXPECT_EQ(session.output(0).shape, std::vector<std::int64_t>{3});
}

TEST(Memory, ViewsAreNotOfTemporaries) {
  const auto views = []<typename Range>(Range&& values) {
    return requires { TensorView::of({2}, std::forward<Range>(values)); };
  };
  std::vector<float> kept = {1, 2};
  static_assert(requires { TensorView::of({2}, kept); });
  static_assert(requires { TensorView::of({2}, std::span(kept)); });
  EXPECT_TRUE(views(kept));
  EXPECT_FALSE(views(std::vector<float>{1, 2}));
}

TEST(Plans, BorrowedBytesStayUntilTheLastUser) {
  const std::vector<std::byte> bytes = doubling().bytes();
  auto* aligned = static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 127) / 64 * 64));
  std::copy(bytes.begin(), bytes.end(), aligned);
  int released = 0;
  const std::span view(aligned, bytes.size());
  const auto owner = [&] {
    return std::shared_ptr<const void>(aligned, [&](const void*) { ++released; });
  };
  {
    std::optional<Plan> plan = Plan::borrow(view, owner());
    Session session(*plan, on_one_thread());
    plan.reset();
    session.set_input("x", {1}, std::vector<float>{4});
    session.run();
    EXPECT_THAT(session.output("y").as<float>(), ElementsAre(8));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_THAT(usage_of([&] { Plan::borrow(std::span(aligned + 8, bytes.size()), owner()); }),
              HasSubstr("not aligned to 64 bytes"));
  EXPECT_EQ(released, 2);
  EXPECT_THROW(Plan::borrow(view.first(100), owner()), Error);
  EXPECT_EQ(released, 3);
  EXPECT_EQ(Plan::borrow(view).inputs()[0].name, "x");
  std::free(aligned);
}

TEST(Plans, SayWhereTheyAreFrom) {
  PlanBuilder builder = summing();
  builder.meta.compiler_version = "9.8.7";
  builder.meta.graph_text = "graph";
  builder.meta.manifest = std::make_unique<fb::ManifestT>();
  fb::ManifestT& manifest = *builder.meta.manifest;
  manifest.model_name = "model";
  manifest.model_hash = 77;
  manifest.precision_notes = {"kept"};
  manifest.options.push_back(std::make_unique<fb::OptionT>());
  manifest.options[0]->key = "precision";
  manifest.options[0]->value = "fp16";
  manifest.measured.push_back(std::make_unique<fb::OutputErrorT>());
  manifest.measured[0]->output = "sum_next";
  manifest.measured[0]->relative_error = 0.5;
  const Plan plan = builder.build();
  EXPECT_EQ(plan.target(), "cpu");
  EXPECT_TRUE(plan.architectures().empty());
  EXPECT_EQ(plan.compiler_version(), "9.8.7");
  EXPECT_EQ(plan.format_version(), plan::kFormatVersion);
  EXPECT_EQ(plan.cuda_version(), 0u);
  EXPECT_EQ(plan.model_name(), "model");
  EXPECT_EQ(plan.model_hash(), 77u);
  EXPECT_EQ(plan.graph_text(), "graph");
  EXPECT_EQ(plan.path(), "");
  EXPECT_THAT(plan.options(),
              ElementsAre(std::pair<std::string, std::string>("precision", "fp16")));
  EXPECT_THAT(plan.precision_notes(), ElementsAre("kept"));
  ASSERT_EQ(plan.measured_errors().size(), 1u);
  EXPECT_EQ(plan.measured_errors()[0].relative_error, 0.5);
  ASSERT_EQ(plan.states().size(), 1u);
  EXPECT_EQ(plan.states()[0].input, plan.input_index("sum"));
  EXPECT_EQ(plan.states()[0].output, plan.output_index("sum_next"));
  EXPECT_EQ(plan.inputs()[1].state, 0u);
  EXPECT_FALSE(plan.inputs()[0].state);
  EXPECT_EQ(doubling().build().model_name(), "");
}

TEST(Version, IsThatOfTheHeader) {
  EXPECT_EQ(version(), SINTER_VERSION);
  EXPECT_EQ(SINTER_VERSION_NUMBER,
            SINTER_VERSION_MAJOR * 1000000 + SINTER_VERSION_MINOR * 1000 + SINTER_VERSION_PATCH);
}

TEST(Log, GoesToTheProgramsLoggerAlone) {
  std::vector<std::string> lines;
  set_logger([&](LogLevel level, std::string_view message) {
    lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(message));
    throw std::runtime_error("a logger's own trouble");
  });
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Session session(doubling().build(), on_one_thread());
  session.set_input("x", {3}, std::vector<float>(3));
  session.run();
  EXPECT_EQ(::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr(),
            "");
  EXPECT_THAT(lines, Contains(HasSubstr("1 plan from memory: cpu, 1 steps")));
  EXPECT_THAT(lines, Contains("1 a session on the CPU"));
  EXPECT_THAT(lines, ::testing::Not(Contains(HasSubstr("symbols"))));
  set_logger([&](LogLevel, std::string_view message) { lines.emplace_back(message); },
             LogLevel::kDebug);
  session.set_input("x", {2}, std::vector<float>(2));
  session.run();
  EXPECT_EQ(lines.back(), "running with n=2");
  set_logger({});
  lines.clear();
  Session other(doubling().build(), on_one_thread());
  EXPECT_TRUE(lines.empty());
}

TEST(Devices, ListThemOrSayWhyNot) {
  const GpuList list = list_gpus();
  EXPECT_EQ(list.gpus.empty(), !list.problem.empty());
  if (list.gpus.empty()) {
    EXPECT_THROW(DeviceBuffer(0, 64), Error);
  }
  for (const GpuInfo& gpu : list.gpus) EXPECT_THAT(gpu.architecture, HasSubstr("sm_"));
}

}  // namespace
}  // namespace sinter::testing
