// SPDX-License-Identifier: Apache-2.0
// The process's threads: who computes what, and what becomes of the pool.
#include "runtime/threads/thread_pool.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sinter/error.h>
#include <sinter/threads.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library_check.h"
#include "runtime/limits/limits.h"
#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {
namespace {

using runtime::limits::allowed_cpus;
using runtime::threads::Member;
using runtime::threads::ThreadPool;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

/// All tests of this binary run with as many threads, whatever the machine has.
class FourThreads : public ::testing::Environment {
  void SetUp() override { set_thread_pool({4, {}, 50}); }
};
[[maybe_unused]] const auto* const kFourThreads =
    ::testing::AddGlobalTestEnvironment(new FourThreads);

/// Leaves the pool as the others expect it.
class SharedPool : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("SINTER_THREADS");
    set_thread_pool({4, {}, 50});
  }
};

template <typename Body>
std::string usage_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

/// 0 + 1 + .. + parts - 1, by a job of the pool.
std::int64_t sum(ThreadPool& pool, std::int64_t parts, int threads) {
  std::atomic<std::int64_t> total{0};
  pool.run(parts, threads, [&](Member& member) {
    while (const auto part = member.next()) total += *part;
  });
  return total;
}

TEST(ThreadPool, EachPartIsTakenOnce) {
  ThreadPool pool({4, {}, 10});
  for (const std::int64_t parts : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> taken(static_cast<std::size_t>(parts));
    std::atomic<int> same[3] = {};
    pool.run(parts, 3, [&](Member& member) {
      ASSERT_LT(member.me(), 3);
      EXPECT_EQ(same[member.me()]++, 0) << "two members with one number";
      while (const auto part = member.next()) ++taken[static_cast<std::size_t>(*part)];
    });
    for (const auto& count : taken) ASSERT_EQ(count, 1);
  }
}

TEST(ThreadPool, JobsFollowEachOther) {
  ThreadPool pool({4, {}, 0});
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(sum(pool, 11, 1 + i % 4), 55);
}

TEST(ThreadPool, OthersTakePartToo) {
  ThreadPool pool({2, {}, 10});
  std::barrier both(2);  // nobody passes alone
  std::set<int> members;
  std::mutex mutex;
  pool.run(2, 2, [&](Member& member) {
    while (member.next()) {
      both.arrive_and_wait();
      const std::lock_guard lock(mutex);
      members.insert(member.me());
    }
  });
  EXPECT_THAT(members, ElementsAre(0, 1));
}

TEST(ThreadPool, SleepersWakeEachOther) {
  ThreadPool pool({8, {}, 0});
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // mostly, all sleep by now
    std::barrier all(8);  // nobody passes unless everybody has come
    pool.run(8, 8, [&](Member& member) {
      while (member.next()) all.arrive_and_wait();
    });
  }
}

TEST(ThreadPool, AsManyThreadsAsWorkIsWorth) {
  using runtime::threads::kNanosecondsOfThread;
  using runtime::threads::team_for;
  EXPECT_EQ(team_for(0, 8), 1);
  EXPECT_EQ(team_for(std::nan(""), 8), 1);
  EXPECT_EQ(team_for(kNanosecondsOfThread * 1.9, 8), 1);
  EXPECT_EQ(team_for(kNanosecondsOfThread * 2, 8), 2);
  EXPECT_EQ(team_for(1e300, 8), 8);
  EXPECT_EQ(team_for(1e300, 0), 1);
}

TEST(ThreadPool, JobsWithinJobsRunAlone) {
  ThreadPool pool({3, {}, 10});
  std::atomic<int> inner{0};
  pool.run(12, 3, [&](Member& member) {
    while (member.next()) {
      const auto thread = std::this_thread::get_id();
      pool.run(5, 3, [&](Member& nested) {
        EXPECT_EQ(nested.me(), 0);
        EXPECT_EQ(std::this_thread::get_id(), thread);
        while (nested.next()) ++inner;
      });
    }
  });
  EXPECT_EQ(inner, 60);
}

TEST(ThreadPool, ExceptionsReachTheCaller) {
  ThreadPool pool({2, {}, 10});
  for (const int thrower : {0, 1}) {
    std::barrier both(2);
    std::atomic<int> begun{0};
    const auto job = [&] {
      pool.run(1000, 2, [&](Member& member) {
        bool first = true;
        while (member.next()) {
          ++begun;
          if (first) both.arrive_and_wait();
          first = false;
          if (member.me() == thrower) throw Error(ErrorCode::kUsage, "a bad index");
        }
      });
    };
    EXPECT_THAT(usage_error(job), HasSubstr("a bad index"));
    EXPECT_EQ(sum(pool, 100, 2), 4950) << "the pool works as before";
  }
}

TEST(ThreadPool, WhoFindsTheOthersBusyRunsAlone) {
  ThreadPool pool({3, {}, 10});
  std::barrier begun(4), done(4);
  std::thread other([&] {
    pool.run(3, 3, [&](Member& member) {
      while (member.next()) {
        begun.arrive_and_wait();
        done.arrive_and_wait();
      }
    });
  });
  begun.arrive_and_wait();  // all of the pool are at the other caller's parts
  const auto thread = std::this_thread::get_id();
  pool.run(20, 3, [&](Member& member) {
    while (member.next()) EXPECT_EQ(std::this_thread::get_id(), thread);
  });
  done.arrive_and_wait();
  other.join();
}

TEST(ThreadPool, CallersCountAsThreads) {
  ThreadPool pool({2, {}, 10});
  std::barrier both(2);
  const auto call = [&] {
    const ThreadPool::Caller caller(pool);
    both.arrive_and_wait();
    const auto thread = std::this_thread::get_id();
    for (int i = 0; i < 100; ++i)
      pool.run(10, 2, [&](Member& member) {
        while (member.next()) EXPECT_EQ(std::this_thread::get_id(), thread);
      });
    both.arrive_and_wait();
  };
  std::thread other(call);
  call();
  other.join();
}

TEST(ThreadPool, ManyCallersAtOnce) {
  ThreadPool pool({4, {}, 20});
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) ASSERT_EQ(sum(pool, 40, 4), 780);
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, StoppedPoolsRunOnTheCaller) {
  ThreadPool pool({4, {}, 10});
  EXPECT_EQ(sum(pool, 100, 4), 4950);
  pool.stop();
  EXPECT_EQ(sum(pool, 100, 4), 4950);
}

TEST_F(SharedPool, IsResizedWhileItIsUsed) {
  std::atomic<bool> over{false};
  std::thread user([&] {
    while (!over) ASSERT_EQ(sum(ThreadPool::shared(), 50, 4), 1225);
  });
  for (int i = 0; i < 30; ++i) {
    set_thread_pool({1 + i % 4, {}, 10});
    EXPECT_EQ(thread_pool_size(), 1 + i % 4);
  }
  over = true;
  user.join();
}

TEST_F(SharedPool, RunsOnTheGivenProcessors) {
  const int cpu = allowed_cpus().back();
  set_thread_pool({0, {cpu}, 50});
  EXPECT_EQ(thread_pool_size(), 1);
  set_thread_pool({2, {cpu}, 50});
  std::barrier both(2);
  runtime::threads::run_parts(2, 2, [&](Member& member) {
    while (member.next()) {
      both.arrive_and_wait();
      if (member.me() == 1) {
        EXPECT_THAT(allowed_cpus(), ElementsAre(cpu));
      }
    }
  });
}

/// The processors of the pool's second thread.
std::vector<int> cpus_of_a_worker() {
  std::vector<int> cpus;
  std::barrier both(2);
  runtime::threads::run_parts(2, 2, [&](Member& member) {
    while (member.next()) {
      both.arrive_and_wait();
      if (member.me() == 1) cpus = allowed_cpus();
    }
  });
  return cpus;
}

TEST_F(SharedPool, DoesNotInheritTheProcessorsOfWhoRunsFirst) {
  const std::vector<int> all = allowed_cpus();
  if (all.size() < 2) GTEST_SKIP() << "one processor is all that there is";
  set_thread_pool({2, {}, 50});
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cpus_of_a_worker(), all);
  }).join();
}

TEST_F(SharedPool, RefusesWhatCannotBe) {
  EXPECT_THAT(usage_error([] { set_thread_pool({-1, {}, 50}); }), HasSubstr("-1 threads"));
  EXPECT_THAT(usage_error([] { set_thread_pool({257, {}, 50}); }), HasSubstr("1 to 256"));
  EXPECT_THAT(usage_error([] { set_thread_pool({1, {}, -5}); }), HasSubstr("-5"));
  EXPECT_THAT(usage_error([] {
                set_thread_pool({1, {100000}, 50});
              }),
              HasSubstr("processor 100000 for the thread pool: this thread may run on"));
  EXPECT_EQ(thread_pool_size(), 4);
}

TEST_F(SharedPool, TakesItsSizeFromTheEnvironment) {
  ::setenv("SINTER_THREADS", "3", 1);
  set_thread_pool({});
  EXPECT_EQ(thread_pool_size(), 3);
  set_thread_pool({2, {}, 50});
  EXPECT_EQ(thread_pool_size(), 2) << "what is asked for comes first";
  for (const char* text : {"many", "0", "3 ", "-1", "300"}) {
    ::setenv("SINTER_THREADS", text, 1);
    EXPECT_THAT(usage_error([] { set_thread_pool({}); }), HasSubstr("SINTER_THREADS")) << text;
  }
}

TEST_F(SharedPool, AChildHasItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes no threads in a child";
  EXPECT_EQ(sum(ThreadPool::shared(), 100, 4), 4950);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::barrier both(2);
    runtime::threads::run_parts(2, 2, [&](Member& member) {
      while (member.next()) both.arrive_and_wait();  // a second thread comes
    });
    // With the parent's options.
    ::_exit(thread_pool_size() == 4 && sum(ThreadPool::shared(), 100, 4) == 4950 ? 42 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(sum(ThreadPool::shared(), 100, 4), 4950);
}

TEST_F(SharedPool, EndsWithTheProcess) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes no threads in a child";
  EXPECT_EXIT(
      {
        sum(ThreadPool::shared(), 100, 4);
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

std::size_t threads_of_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST_F(SharedPool, OpenMpIsLeftAlone) {
  const auto set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  if (!set || !get) GTEST_SKIP() << "this oneDNN has no OpenMP";
  constexpr std::int64_t kSize = 256;
  PlanBuilder p;
  const Id size = p.constant(kSize), one = p.constant(1);
  const Bytes weight = random_bytes(DType::kFloat32, kSize * kSize, 1);
  fb::MatmulStepT work;
  work.m = work.n = work.k = size;
  const Id x = p.input("x", DType::kFloat32, {size, size}),
           w = p.weight_bytes(DType::kFloat32, weight.data(), weight.size()),
           y = p.output("y", DType::kFloat32, {size, size});
  work.a = p.matrix(x, size, one, {});
  work.b = p.matrix(w, size, one, {});
  work.d = p.matrix(y, size, one, {});
  p.matmul("product", std::move(work));
  set_thread_pool({1, {}, 50});
  set(3);
  const std::size_t before = threads_of_process();
  Session session(p.build());
  session.set_input("x", {DType::kFloat32, {kSize, kSize}, weight.data()});
  session.run();
  EXPECT_EQ(threads_of_process(), before) << "oneDNN started threads of its own";
  EXPECT_EQ(get(), 3) << "the setting of the calling thread is the caller's";
}

/// A tree of files that look like a system's.
class CpuQuota : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/sinter_quota_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<double> quota() const { return runtime::limits::cpu_quota(root_); }

  std::filesystem::path root_;
};

TEST_F(CpuQuota, OfVersionTwoIsTheLeastOnTheWay) {
  write("proc/self/cgroup", "0::/user.slice/job\n");
  write("proc/self/mountinfo",
        "22 1 0:1 / /proc rw - proc proc rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/user.slice/job/cpu.max", "what is this\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, OfVersionOne) {
  write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a/b\n0::/\n");
  write("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3.0);
}

// A container sees its own group at the mount's top; without a namespace the host's path names it.
TEST_F(CpuQuota, OfAContainer) {
  write("proc/self/cgroup", "0::/docker/abc/worker\n");
  write("proc/self/mountinfo", "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4.0);
  write("sys/fs/cgroup/worker/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(quota(), 4.0);
}

TEST_F(CpuQuota, OfMemory) {
  const auto memory = [&] { return runtime::limits::memory_quota(root_); };
  write("proc/self/cgroup", "5:memory:/a\n0::/job\n");
  write("proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(memory(), std::nullopt);
  write("sys/fs/cgroup/unified/job/memory.max", "max\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory(), std::nullopt);
  write("sys/fs/cgroup/unified/job/memory.max", "2147483648\n");
  EXPECT_EQ(memory(), std::uint64_t{1} << 31);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(memory(), std::uint64_t{1} << 30);
}

TEST_F(CpuQuota, RoundsDownToAtLeastOne) {
  using runtime::limits::usable_cpus;
  EXPECT_EQ(usable_cpus(8, std::nullopt), 8);
  EXPECT_EQ(usable_cpus(8, 2.5), 2);
  EXPECT_EQ(usable_cpus(8, 0.5), 1);
  EXPECT_EQ(usable_cpus(2, 16.0), 2);
  EXPECT_EQ(usable_cpus(0, std::nullopt), 1);
  EXPECT_FALSE(allowed_cpus().empty());
}

}  // namespace
}  // namespace sinter::testing
