// SPDX-License-Identifier: Apache-2.0
// What a process of its own does, ends there.
#include "runtime/sandbox/sandbox.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/format_error.h"

namespace sinter::testing {
namespace {

using sandbox::Limits;
using sandbox::Task;
using sandbox::Worker;
using ::testing::HasSubstr;

std::size_t deepen(std::size_t depth) {
  volatile std::size_t here = depth;
  return depth == 0 ? 0 : deepen(depth + 1) + here;
}

std::string run(void* prepared, std::string_view input) {
  volatile int zero = 0;
  if (input == "throw") throw unsupported_error("no {}", "way");
  if (input == "memory") return std::to_string(std::vector<char>(std::size_t{1} << 30, 'a').size());
  if (input == "stack") return std::to_string(deepen(1));
  if (input == "zero") return std::to_string(1 / zero);
  if (input == "abort") std::abort();
  if (input == "time")
    while (true) zero = zero + 1;
  if (input == "large") return std::string(1 << 20, 'a');
  if (input == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return *static_cast<std::string*>(prepared) + std::string(input);
}
constexpr Task kTask = {.name = "the task",
                        .verb = "done",
                        .prepare = [](std::string_view input) -> std::shared_ptr<void> {
                          if (input == "throw") throw usage_error("not prepared");
                          if (input == "abort") std::abort();
                          return std::make_shared<std::string>(input);
                        },
                        .run = run};
constexpr Limits kLimits = {.seconds = 0.2,
                            .prepare_seconds = 1,
                            .bytes = 64 << 20,
                            .answer_bytes = 1000,
                            .at_once = 2,
                            .waiting = 100};

std::string refusal(const std::string& prepare, const std::string& input) {
  try {
    return "got " + Worker(kTask, prepare, kLimits).run(input);
  } catch (const Error& error) {
    return error.what();
  }
}

class Sandbox : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { sandbox::start(); }
};

TEST_F(Sandbox, GivesWhatTheTaskGives) {
  const Worker worker(kTask, "prepared ", kLimits);
  EXPECT_EQ(worker.run("text"), "prepared text");
  EXPECT_EQ(worker.run(""), "prepared ");
  EXPECT_EQ(worker.run(std::string(500, '\0')), "prepared " + std::string(500, '\0'));
}

TEST_F(Sandbox, WhatFailsThereIsAnError) {
  EXPECT_THAT(refusal("a", "throw"), HasSubstr("no way"));
  EXPECT_THAT(refusal("throw", "a"), HasSubstr("not prepared"));
  EXPECT_THAT(refusal("abort", "a"), HasSubstr("the task cannot be read"));
  EXPECT_THAT(refusal("a", "abort"), HasSubstr("the task cannot be done"));
  EXPECT_THAT(refusal("a", "time"), HasSubstr("takes more than 0.2 s"));
  EXPECT_THAT(refusal("a", "large"), HasSubstr("too large"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_THAT(refusal("a", "memory"), HasSubstr("memory"));
  EXPECT_THAT(refusal("a", "stack"), HasSubstr("nested too deep"));
#endif
  // The code is kept.
  try {
    Worker(kTask, "a", kLimits).run("throw");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
  // Another call of the same process is not harmed.
  const Worker worker(kTask, "a", kLimits);
  EXPECT_THROW(worker.run("abort"), Error);
  EXPECT_EQ(worker.run("b"), "ab");
}

TEST_F(Sandbox, ManyThreadsHaveTheirTurn) {
  const Worker worker(kTask, "a", kLimits);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      const std::string input = i % 4 == 0 ? "sleep" : std::to_string(i);
      right += worker.run(input) == "a" + input;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
  Limits none = kLimits;
  none.waiting = 0;
  try {
    Worker(kTask, "a", none).run("b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
}

}  // namespace
}  // namespace sinter::testing
