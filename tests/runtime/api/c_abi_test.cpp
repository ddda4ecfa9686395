// SPDX-License-Identifier: Apache-2.0
// The C ABI: a program in C, and what may not change once it was released.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter_c.h>
#include <unistd.h>

#include "api_plans.h"
#include "c_program.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;

TEST(CAbi, AProgramInC) {
  const std::vector<std::byte> bytes = doubling().bytes();
  const fs::path path = fs::temp_directory_path() / fmt::format("c_abi_{}.plan", ::getpid());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_EQ(sinter_test_c_program(path.c_str(), bytes.data(), bytes.size()), 0)
      << "the line of c_program.c; " << sinter_last_error();
  fs::remove(path);
}

TEST(CAbi, AnErrorIsItsThreadsOwn) {
  sinter_plan* plan = nullptr;
  EXPECT_EQ(sinter_plan_from_memory("abc", 3, &plan), SINTER_ERROR_INVALID_PLAN);
  const std::string before = sinter_last_error();
  std::thread([] {
    EXPECT_STREQ(sinter_last_error(), "");
    EXPECT_EQ(sinter_session_run(nullptr), SINTER_ERROR_USAGE);
  }).join();
  EXPECT_EQ(before, sinter_last_error());
}

TEST(CAbi, ManyThreadsInOneSessionRaceForNothing) {
  const std::vector<std::byte> bytes = doubling().bytes();
  sinter_plan* plan = nullptr;
  sinter_session* session = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(bytes.data(), bytes.size(), &plan), SINTER_OK);
  sinter_session_options options = {sizeof options};
  options.threads = 1;
  ASSERT_EQ(sinter_session_create(plan, &options, &session), SINTER_OK);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<float> x(64, static_cast<float>(t));
      const std::int64_t shape = 64;
      sinter_tensor tensor = {sizeof tensor, SINTER_FLOAT32, 1, &shape, x.data(), 256, 0, -1};
      for (int i = 0; i < 50; ++i)
        for (const sinter_status status :
             {sinter_session_set_input(session, 0, &tensor), sinter_session_run(session)})
          EXPECT_TRUE(status == SINTER_OK || status == SINTER_ERROR_USAGE) << sinter_last_error();
    });
  for (auto& thread : threads) thread.join();
  sinter_plan_free(plan);
  sinter_session_free(session);
}

TEST(CAbi, WhatWasFreedIsAnError) {
  const std::vector<std::byte> bytes = doubling().bytes();
  sinter_plan* plan = nullptr;
  sinter_session *session = nullptr, *other = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(bytes.data(), bytes.size(), &plan), SINTER_OK);
  ASSERT_EQ(sinter_session_create(plan, nullptr, &session), SINTER_OK);
  sinter_plan_free(plan);
  sinter_plan_free(plan);
  EXPECT_EQ(sinter_session_create(plan, nullptr, &other), SINTER_ERROR_USAGE);
  EXPECT_THAT(sinter_last_error(), ::testing::HasSubstr("this plan was freed"));
  EXPECT_EQ(other, nullptr);
  sinter_binding binding = {sizeof binding};
  EXPECT_EQ(sinter_plan_input(plan, 0, &binding), SINTER_ERROR_USAGE);
  EXPECT_EQ(sinter_plan_input_count(plan), 0u);
  const float x[2] = {1, 2};
  const std::int64_t shape = 2;
  const sinter_tensor given = {sizeof given, SINTER_FLOAT32, 1, &shape, x, sizeof x, 0, -1};
  EXPECT_EQ(sinter_session_set_input(session, 0, &given), SINTER_OK) << "it keeps what it needs";
  EXPECT_EQ(sinter_session_run(session), SINTER_OK);
  sinter_session_free(session);
  EXPECT_EQ(sinter_session_run(session), SINTER_ERROR_USAGE);
  EXPECT_THAT(sinter_last_error(), ::testing::HasSubstr("this session was freed"));
  sinter_session_free(session);
}

TEST(CAbi, FreedWhileAnotherThreadRuns) {
  const std::vector<std::byte> bytes = doubling().bytes();
  sinter_plan* plan = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(bytes.data(), bytes.size(), &plan), SINTER_OK);
  const std::vector<float> x(1 << 14, 1);
  const std::int64_t shape = 1 << 14;
  const sinter_tensor given = {sizeof given, SINTER_FLOAT32, 1, &shape, x.data(), 4 << 14, 0, -1};
  sinter_session_options options = {sizeof options};
  options.threads = 1;
  for (int i = 0; i < 20; ++i) {
    sinter_session* session = nullptr;
    ASSERT_EQ(sinter_session_create(plan, &options, &session), SINTER_OK);
    ASSERT_EQ(sinter_session_set_input(session, 0, &given), SINTER_OK);
    std::thread runner([&] {
      while (sinter_session_run(session) == SINTER_OK) {
      }
      EXPECT_THAT(sinter_last_error(), ::testing::HasSubstr("freed"));
    });
    sinter_session_free(session);
    runner.join();
  }
  sinter_plan_free(plan);
}

TEST(CAbi, StatesAndEntryPoints) {
  const std::vector<std::byte> bytes = summing().bytes();
  sinter_plan* plan = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(bytes.data(), bytes.size(), &plan), SINTER_OK);
  ASSERT_EQ(sinter_plan_state_count(plan), 1u);
  std::size_t input = 9, output = 9, x_index = 9;
  ASSERT_EQ(sinter_plan_state(plan, 0, &input, &output), SINTER_OK);
  ASSERT_EQ(sinter_plan_input_index(plan, "x", &x_index), SINTER_OK);
  sinter_binding binding = {sizeof binding};
  ASSERT_EQ(sinter_plan_input(plan, input, &binding), SINTER_OK);
  EXPECT_STREQ(binding.name, "sum");
  EXPECT_EQ(binding.state, 0);
  sinter_session* session = nullptr;
  ASSERT_EQ(sinter_session_create(plan, nullptr, &session), SINTER_OK);
  const float x[2] = {1, 2};
  const std::int64_t shape = 2;
  const sinter_tensor given = {sizeof given, SINTER_FLOAT32, 1, &shape, x, sizeof x, 0, -1};
  ASSERT_EQ(sinter_session_set_input(session, x_index, &given), SINTER_OK);
  sinter_tensor sum = {sizeof sum};
  for (int i = 1; i <= 2; ++i) {
    ASSERT_EQ(sinter_session_run(session), SINTER_OK);
    ASSERT_EQ(sinter_session_output(session, output, &sum), SINTER_OK);
    EXPECT_EQ(static_cast<const float*>(sum.data)[1], 2.0F * static_cast<float>(i));
  }
  ASSERT_EQ(sinter_session_reset_state(session), SINTER_OK);
  ASSERT_EQ(sinter_session_run(session), SINTER_OK);
  ASSERT_EQ(sinter_session_output(session, output, &sum), SINTER_OK);
  EXPECT_EQ(static_cast<const float*>(sum.data)[1], 2.0F);
  sinter_session_free(session);
  sinter_plan_free(plan);
}

std::vector<std::string> lines_of(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// C functions that the library defines, as `nm` finds them.
std::vector<std::string> exported_functions() {
  std::vector<std::string> names;
  FILE* nm = ::popen("nm -g --defined-only '" SINTER_RUNTIME_FILE "' 2>/dev/null", "r");
  char line[4096];
  while (nm && std::fgets(line, sizeof line, nm)) {
    const std::string text(line);
    if (const auto at = text.find(" T sinter_"); at != std::string::npos)
      names.push_back(text.substr(at + 3, text.find_last_not_of('\n') - at - 2));
  }
  if (nm) ::pclose(nm);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(CAbi, IsWhatWasReleased) {
  // What the list has stays; what is new is added to it, and SINTER_C_ABI_VERSION grows.
  const fs::path list = fs::path(source_dir()) / "tests/runtime/goldens/c_abi.txt";
  std::vector<std::string> found = {fmt::format("version {}", sinter_c_abi_version())};
  for (const std::string& name : exported_functions()) found.push_back(name + "()");
  std::size_t count = 0;
  const char* const* rows = sinter_test_c_layout(&count);
  found.insert(found.end(), rows, rows + count);
  if (std::getenv("SINTER_UPDATE_GOLDENS")) {
    std::ofstream file(list);
    for (const std::string& line : found) file << line << '\n';
  }
  std::ifstream file(list);
  EXPECT_EQ(lines_of(file), found);
}

TEST(CAbi, TheHeaderDeclaresWhatIsExported) {
  std::string headers;
  for (const char* name : {"sinter_c.h", "sinter_c_engine.h"}) {
    std::ifstream file(fs::path(source_dir()) / "runtime/include/sinter" / name);
    headers.append(std::istreambuf_iterator<char>(file), {});
  }
  const auto functions = exported_functions();
  EXPECT_GT(functions.size(), 40u);
  for (const std::string& name : functions)
    EXPECT_THAT(headers, ::testing::HasSubstr(name + "(")) << name;
}

}  // namespace
}  // namespace sinter::testing
