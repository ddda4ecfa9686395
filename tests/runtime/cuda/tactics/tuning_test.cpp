// SPDX-License-Identifier: Apache-2.0
// What was chosen by timing: how it is kept in files and used again.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "runtime/libraries/tuning_cache.h"
#include "tests/runtime/cuda/matmul_fixture.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using runtime::TunedAlgorithm;
using runtime::TuningCache;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST_F(TuningTest, CachesOfOneFileMayBeSavedAtOnce) {
  // Of several environments: as those of the two libraries of a process, they share no lock. Two
  // threads have each of them.
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const auto cache = TuningCache::open(file, "environment " + std::to_string(t / 2));
      for (int i = 0; i < 100; ++i) {
        const std::string problem = "problem " + std::to_string(i);
        cache->store(problem, {{1}, 1.0, "note"});
        failures += !cache->save();
        failures += !cache->find(problem);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_NO_THROW((void)runtime::check_tuning_file(file));
  for (const auto& entry : fs::directory_iterator(folder)) EXPECT_EQ(entry.path().string(), file);
}

TEST_F(TuningTest, ChosenAlgorithmIsKeptAndUsed) {
  const ProductCase test = plain_case();
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

TEST_F(TuningTest, EightSessionsThatBindAtOnceChooseOnce) {
  const auto data = plan_of(plain_case());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      const auto mine = runtime::make_cuda_executor(environment(), data, options);
      mine->prepare(runtime::BoundShapeCache(data, 1).get({}));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(fake_cublaslt().heuristics, 1);
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
  const ProductCase test = plain_case();
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
  const ProductCase test = plain_case();
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
