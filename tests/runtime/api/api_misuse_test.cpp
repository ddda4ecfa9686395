// SPDX-License-Identifier: Apache-2.0
// Wrong uses of the API: an error each that names both sides, and nothing worse.
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/allocator.h>
#include <sinter/profile.h>

#include "api_plans.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Misuse, AShortSpanIsNotReadBeyondItsEnd) {
  Session session(doubling().build(), on_one_thread());
  const std::vector<float> three(3, 1.0F);
  EXPECT_THAT(usage_of([&] { session.set_input("x", {4}, three); }),
              AllOf(HasSubstr("input 'x' of shape [4] and type f32 takes 4 elements, 16 bytes"),
                    HasSubstr("3 elements, 12 bytes, are given")));
  EXPECT_THAT(usage_of([&] { session.set_input("x", {2}, three); }), HasSubstr("takes 2 elements"));
  EXPECT_THAT(usage_of([&] {
                session.set_input(0, {4}, std::as_bytes(std::span(three)), DType::kFloat32);
              }),
              HasSubstr("12 bytes, are given"));
  EXPECT_THAT(usage_of([&] { TensorView::of({4}, three); }),
              HasSubstr("the shape [4] has 4 elements, but 3 are given"));
  // Nothing was set.
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("input 'x' is not set"));
}

TEST(Misuse, TheTypeOfValuesIsThatOfTheInput) {
  Session session(doubling().build(), on_one_thread());
  EXPECT_THAT(usage_of([&] { session.set_input("x", {2}, std::vector<double>(2)); }),
              HasSubstr("input 'x' is of type f64; the plan takes f32"));
  EXPECT_THAT(usage_of([&] { session.set_input("x", {2}, std::vector<int>(2)); }),
              HasSubstr("of type i32; the plan takes f32"));
  Session half(doubling(DType::kFloat16).build(), on_one_thread());
  EXPECT_THAT(usage_of([&] { half.set_input("x", {2}, std::vector<std::uint16_t>(2)); }),
              HasSubstr("of type u16; the plan takes f16"));
  half.set_input("x", {1}, std::vector<Float16>{{0x3c00}});
  half.run();
  EXPECT_EQ(half.output("y").as<Float16>()[0].bits, 0x4000);
}

TEST(Misuse, ViewsAreReadAsWhatTheyAre) {
  Session session(doubling().build(), on_one_thread());
  session.set_input("x", {1}, std::vector<float>{2});
  session.run();
  const TensorView y = session.output("y");
  EXPECT_THAT(y.as<float>(), ElementsAre(4));
  EXPECT_THAT(usage_of([&] { y.as<double>(); }),
              HasSubstr("of type f32 and cannot be read as f64"));
  EXPECT_THAT(usage_of([&] { y.as<Float16>(); }), HasSubstr("cannot be read as f16"));
  TensorView device = y;
  device.memory = Memory::kDevice;
  EXPECT_THAT(usage_of([&] { device.as<float>(); }), HasSubstr("in device memory"));
}

TEST(Misuse, DeviceMemoryOfAPlanForTheCpu) {
  Session session(doubling().build(), on_one_thread());
  alignas(64) float values[2] = {};
  const TensorView input{DType::kFloat32, {2}, values, Memory::kDevice};
  EXPECT_THAT(usage_of([&] { session.set_input("x", input); }), HasSubstr("takes host memory"));
  EXPECT_THAT(usage_of([&] { session.use_input("x", input); }), HasSubstr("takes host memory"));
  EXPECT_THAT(usage_of([&] {
                session.set_output("y", {DType::kFloat32, {2}, values, Memory::kDevice});
              }),
              HasSubstr("cannot go to device memory"));
}

TEST(Misuse, MemoryThatIsNotAlignedToItsElements) {
  Session session(doubling().build(), on_one_thread());
  alignas(64) char bytes[64] = {};
  EXPECT_THAT(usage_of([&] {
                session.use_input("x", TensorView{DType::kFloat32, {2}, bytes + 1});
              }),
              AllOf(HasSubstr("input 'x'"), HasSubstr("not aligned to the 4 bytes of f32")));
  EXPECT_THAT(usage_of([&] {
                session.set_output("y", MutableTensorView{DType::kFloat32, {2}, bytes + 2});
              }),
              AllOf(HasSubstr("output 'y'"), HasSubstr("not aligned")));
  // A copy may come from anywhere.
  session.set_input("x", TensorView{DType::kFloat32, {2}, bytes + 1});
  session.run();
}

TEST(Misuse, IndicesOutOfRange) {
  const Plan plan = doubling().build();
  Session session(plan, on_one_thread());
  const std::vector<float> one(1);
  EXPECT_THAT(usage_of([&] { session.set_input(1, {1}, one); }),
              HasSubstr("there is no input 1; the plan has 1 of them"));
  EXPECT_THAT(usage_of([&] { session.output(7); }), HasSubstr("there is no output 7"));
  EXPECT_THAT(usage_of([&] { session.set_output(1, MutableTensorView{}); }),
              HasSubstr("there is no output 1"));
  EXPECT_THAT(usage_of([&] { plan.input_index("y"); }),
              HasSubstr("there is no input 'y'; the plan has 'x'"));
}

TEST(Misuse, WhatWasMovedFrom) {
  Plan plan = doubling().build();
  Session session(plan, on_one_thread());
  Session other = std::move(session);
  const std::vector<float> one(1);
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("the session was moved from"));
  EXPECT_THAT(usage_of([&] { session.set_input("x", {1}, one); }), HasSubstr("was moved from"));
  EXPECT_THAT(usage_of([&] { session.set_input(0, {1}, one); }), HasSubstr("was moved from"));
  EXPECT_THAT(usage_of([&] { session.output(0); }), HasSubstr("was moved from"));
  EXPECT_THAT(usage_of([&] { profile_steps(session); }), HasSubstr("was moved from"));
  session = std::move(other);
  session.set_input("x", {1}, one);
  session.run();
  const Plan moved = std::move(plan);
  EXPECT_THAT(usage_of([&] { plan.target(); }), HasSubstr("the plan was moved from"));
  EXPECT_THAT(usage_of([&] { Session(plan, on_one_thread()); }), HasSubstr("plan was moved from"));
  // NOLINTEND(bugprone-use-after-move)
}

TEST(Misuse, APlanMayGoBeforeItsSessions) {
  std::optional<Session> session;
  {
    const std::vector<std::byte> bytes = doubling().bytes();
    const Plan plan = Plan::from_memory(bytes);
    session.emplace(plan, on_one_thread());
  }
  session->set_input("x", {2}, std::vector<float>{1, 2});
  session->run();
  EXPECT_THAT(session->output("y").as<float>(), ElementsAre(2, 4));
  EXPECT_EQ(session->plan().inputs()[0].name, "x");
}

/// Stops whoever asks for memory until it is told to go on.
class Gate final : public Allocator {
 public:
  void* allocate(Memory, int, std::size_t bytes, std::size_t alignment) noexcept override {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
    return ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  }
  void deallocate(void* data, Memory, int, std::size_t, std::size_t alignment) noexcept override {
    ::operator delete (data, std::align_val_t{alignment});
  }
  void await_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_waiting_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false, is_waiting_ = false;
};

TEST(Misuse, TwoThreadsInOneSessionAreAnError) {
  const auto gate = std::make_shared<Gate>();
  SessionOptions options = on_one_thread();
  options.allocator = gate;
  Session session(doubling().build(), options);
  std::thread first([&] { session.set_input("x", {2}, std::vector<float>{1, 2}); });
  gate->await_visitor();
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { session.set_input("x", {1}, std::vector<float>{5}); },
           [&] {
             session.use_input("x", TensorView{DType::kFloat32, {0}, nullptr});
           },
           [&] { session.set_output(0, MutableTensorView{}); }, [&] { session.run(); },
           [&] { session.run_async(); }, [&] { session.await(); }, [&] { session.output(0); },
           [&] { session.reset_state(); }, [&] { session.warm_up({}); }, [&] { session.memory(); },
           [&] { time_compute(session, false); }})
    EXPECT_THAT(usage_of(call), HasSubstr("used from two threads at once"));
  gate->open();
  first.join();
  // The first thread's call did what it should.
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 4));
}

TEST(Misuse, ManyThreadsInOneSessionRaceForNothing) {
  Session session(doubling().build(), on_one_thread());
  std::atomic<int> served{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<float> mine(100, static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        try {
          session.set_input("x", {100}, mine);
          session.run();
          ++served;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("two threads at once"));
          ++refused;
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(served + refused, 200);
  EXPECT_GT(served, 0);
}

TEST(Misuse, ASessionMayMoveBetweenThreads) {
  Session session(summing().build(), on_one_thread());
  for (int i = 1; i <= 3; ++i) {
    std::thread([&, mine = std::move(session)]() mutable {
      mine.set_input("x", {2}, std::vector<float>{1, 2});
      mine.run();
      session = std::move(mine);
    }).join();
    const auto n = static_cast<float>(i);
    EXPECT_THAT(session.output("sum_next").as<float>(), ElementsAre(n, 2 * n));
  }
}

TEST(Misuse, StatesAreTheSessionsMemory) {
  Session session(summing().build(), on_one_thread());
  alignas(64) float mine[2] = {};
  EXPECT_THAT(usage_of([&] {
                session.use_input("sum", TensorView{DType::kFloat32, {2}, mine});
              }),
              HasSubstr("input 'sum' is a state"));
  EXPECT_THAT(usage_of([&] {
                session.set_output("sum_next", MutableTensorView{DType::kFloat32, {2}, mine});
              }),
              HasSubstr("is a state"));
}

}  // namespace
}  // namespace sinter::testing
