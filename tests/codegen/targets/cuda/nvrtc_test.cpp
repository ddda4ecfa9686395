// SPDX-License-Identifier: Apache-2.0
// Compilation with NVRTC: needs the CUDA toolkit's library, but no GPU.
#ifdef SINTER_WITH_CUDA
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/families/loops/emit_loops.h"
#include "codegen/targets/cuda/nvrtc_loader.h"
#include "codegen/targets/kernel_cache.h"
#include "tests/codegen/emit/cuda_programs.h"
#include "tests/codegen/emit/cuda_random_programs.h"
#include "tests/codegen/emulation/compile_all.h"

namespace sinter::test {
namespace {

namespace fs = std::filesystem;
using codegen::CompiledKernel;
using testing::HasSubstr;

const std::vector<std::string> kHopper = {"sm_90"};

std::vector<std::vector<CompiledKernel>> compile(const std::vector<std::string>& sources,
                                                 const std::vector<std::string>& architectures,
                                                 const std::string& cache = "") {
  codegen::KernelCompileOptions options;
  options.cache_dir = cache;
  codegen::KernelCompileStats stats;
  return codegen::compile_cuda(sources, architectures, options, stats);
}

std::string copy_source(const std::string& name = "copy") {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {1 << 20}, 0);
  p.store(p.dense(DType::kFloat16, {0}), p.load(p.dense(DType::kFloat32, {0})));
  return codegen::emit_loops(p.request(name), exprs).source;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "sinter-test-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path = pattern;
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file()) all.push_back(entry.path());
    return all;
  }
};

TEST(Nvrtc, CompilesEveryKindOfKernelForEveryArchitecture) {
  codegen::ExprTable exprs({{"s", {1, 4096, nullptr}}, {"t", {1, INT64_MAX, nullptr}}});
  const ir::Dim s = ir::Dim::symbol("s"), t = ir::Dim::symbol("t");
  std::vector<std::string> sources;
  const auto add = [&](const ProgramBuilder& p) {
    sources.push_back(
        codegen::emit_loops(p.request(fmt::format("kernel_{}", sources.size())), exprs).source);
  };
  for (DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    add(layer_norm(exprs, 8192, 4096, type));
    add(layer_norm(exprs, t, 384, type));
    add(masked_softmax(exprs, t, ir::Dim(12) * s, s, type));
  }
  for (std::uint64_t seed = 0; seed < 16; ++seed) add(random_program(exprs, seed));
  const auto results =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  ASSERT_EQ(results.size(), sources.size());
  for (const auto& result : results) {
    ASSERT_EQ(result.size(), 3u);
    for (const CompiledKernel& kernel : result) EXPECT_GT(kernel.code.size(), 100u);
    EXPECT_NE(result[0].code, result[1].code);
  }
}

/// Host and device take different branches in device/*.cuh: every operator must compile on both.
TEST(Nvrtc, CompilesEveryOperatorInEveryType) {
  codegen::ExprTable exprs{ir::Ranges{}};
  std::vector<std::string> sources;
  for (int type_code = 0; type_code < kDTypeCount; ++type_code) {
    const auto type = static_cast<DType>(type_code);
    const DType compute = compute_type(type);
    ProgramBuilder p(exprs, {64}, 0);
    const auto a = p.load(p.dense(type, {0})), b = p.load(p.dense(type, {0}));
    const auto c = p.load(p.dense(DType::kBool, {0}));
    const auto store = [&](std::uint32_t value) {
      p.store(p.dense(p.type_of(value) == compute ? type : p.type_of(value), {0}), value);
    };
    for (int code = 0; code < kScalarOpCount; ++code) {
      const auto op = static_cast<ScalarOp>(code);
      if (converts(op) || !is_defined_on(op, type)) continue;
      if (op == ScalarOp::kSelect)
        store(p.op(op, compute, {c, a, b}));
      else
        store(arity_of(op) == 1 ? p.op(op, {a}) : p.op(op, {a, b}));
    }
    for (int to = 0; to < kDTypeCount; ++to) {
      const DType target = compute_type(static_cast<DType>(to));
      store(p.op(ScalarOp::kCast, target, {a}));
      if (size_of(target) == size_of(compute)) store(p.op(ScalarOp::kBitCast, target, {a}));
    }
    sources.push_back(
        codegen::emit_loops(p.request(fmt::format("operators_{}", to_string(type))), exprs).source);
    ProgramBuilder r(exprs, {64, 300}, 1);
    const auto x = r.load(r.dense(type, {0, 1}));
    for (Combine combine : {Combine::kSum, Combine::kProd, Combine::kMax, Combine::kMin})
      r.store(r.dense(type, {0}), r.reduce(combine, x));
    sources.push_back(
        codegen::emit_loops(r.request(fmt::format("reductions_{}", to_string(type))), exprs)
            .source);
  }
  EXPECT_EQ(codegen::compile_cuda(sources, kHopper).size(), sources.size());
}

TEST(Nvrtc, SameSourceGivesSameCode) {
  EXPECT_EQ(compile({copy_source()}, kHopper)[0][0].code,
            compile({copy_source("other"), copy_source()}, kHopper)[1][0].code);
}

TEST(Nvrtc, EqualSourcesCompileOnce) {
  std::size_t total = 0;
  codegen::KernelCompileOptions options;
  options.progress = [&](std::size_t done, std::size_t all) {
    EXPECT_LE(done, all);
    total = all;
  };
  codegen::KernelCompileStats stats;
  const std::vector<std::string> sources(5, copy_source());
  const auto results = codegen::compile_cuda(sources, kHopper, options, stats);
  EXPECT_EQ(total, 1u);
  EXPECT_EQ(results[4][0].code, results[0][0].code);
  EXPECT_GE(stats.version, 12000);
}

TEST(Nvrtc, UnknownArchitecture) {
  try {
    compile({copy_source()}, {"sm_12345"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("'sm_12345' is unknown to NVRTC"));
    EXPECT_THAT(error.what(), HasSubstr("sm_90"));
  }
}

TEST(Nvrtc, FailureLeavesAStandaloneReproducer) {
  std::string source = copy_source();
  source.replace(source.find("load<"), 5, "laod<");
  const auto compiled = compile({copy_source("fine"), source}, kHopper);
  EXPECT_FALSE(compiled[0][0].refusal);
  ASSERT_TRUE(compiled[1][0].refusal);
  EXPECT_THAT(compiled[1][0].refusal->log, HasSubstr("laod"));
  const std::string path = compiled[1][0].refusal->reproducer;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("nvcc -arch=sm_90"));
  EXPECT_THAT(text.str(), HasSubstr("struct alignas"));  // the device headers are in it
  EXPECT_THAT(text.str(), testing::Not(HasSubstr(".cuh")));
  // Mended, it compiles on its own.
  std::string mended = text.str();
  for (std::size_t at = 0; (at = mended.find("laod<", at)) != std::string::npos;)
    mended.replace(at, 5, "load<");
  EXPECT_FALSE(compile({mended}, kHopper)[0][0].refusal);
  fs::remove(path);
}

TEST(Nvrtc, MissingLibraryIsNamed) {
  const Folder empty;
  try {
    codegen::load_nvrtc_from({{empty.path}, 1, false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("libnvrtc.so.13"));
    EXPECT_THAT(error.what(), HasSubstr(empty.path));
    EXPECT_THAT(error.what(), HasSubstr("tools/setup --cuda"));
  }
}

TEST(Nvrtc, FoundInAFolderAlone) {
  const fs::path found = codegen::load_nvrtc().path;
  const codegen::Nvrtc nvrtc = codegen::load_nvrtc_from({{found.parent_path().string()}, 1, false});
  EXPECT_EQ(nvrtc.version, codegen::load_nvrtc().version);
}

TEST(KernelCache, SecondCompilationIsAHit) {
  const Folder cache;
  const auto first = compile({copy_source()}, kHopper, cache.path)[0][0];
  const auto second = compile({copy_source()}, kHopper, cache.path)[0][0];
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.code, second.code);
  EXPECT_EQ(cache.files().size(), 1u);  // and nothing temporary
}

TEST(KernelCache, OtherSourceOrArchitectureIsAMiss) {
  const Folder cache;
  compile({copy_source()}, kHopper, cache.path);
  EXPECT_FALSE(compile({copy_source()}, {"sm_80"}, cache.path)[0][0].from_cache);
  EXPECT_FALSE(compile({copy_source("other")}, kHopper, cache.path)[0][0].from_cache);
  const std::string key = codegen::KernelCache::key("source", "more", "options", 13000, "sm_90");
  EXPECT_NE(key, codegen::KernelCache::key("source", "more2", "options", 13000, "sm_90"));
  EXPECT_NE(key, codegen::KernelCache::key("source", "more", "options2", 13000, "sm_90"));
  EXPECT_NE(key, codegen::KernelCache::key("source", "more", "options", 12080, "sm_90"));
  EXPECT_NE(key, codegen::KernelCache::key("sourcem", "ore", "options", 13000, "sm_90"));
}

TEST(KernelCache, DamagedEntriesAreCompiledAgain) {
  const auto damage = [](const fs::path& file, int how) {
    const auto size = static_cast<std::int64_t>(fs::file_size(file));
    if (how == 0) fs::resize_file(file, static_cast<std::uintmax_t>(size - 7));
    if (how == 1) fs::resize_file(file, 0);
    if (how == 2) fs::resize_file(file, static_cast<std::uintmax_t>(size + 1));
    if (how < 3) return;
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    const std::int64_t at = how == 3 ? size / 2 : how == 4 ? 3 : 10;
    bytes.seekg(at);
    const char old = static_cast<char>(bytes.get());
    bytes.seekp(at);
    bytes.put(static_cast<char>(old ^ 0x40));
  };
  for (int how = 0; how < 6; ++how) {
    const Folder cache;
    const auto whole = compile({copy_source()}, kHopper, cache.path)[0][0];
    damage(cache.files().at(0), how);
    const auto again = compile({copy_source()}, kHopper, cache.path)[0][0];
    EXPECT_FALSE(again.from_cache) << how;
    EXPECT_EQ(again.code, whole.code) << how;
    EXPECT_TRUE(compile({copy_source()}, kHopper, cache.path)[0][0].from_cache) << how;
  }
}

const std::string kKey = "0123456789abcdef";

std::vector<std::byte> some_kernel(int seed) {
  std::vector<std::byte> kernel(1000);
  for (std::size_t i = 0; i < kernel.size(); ++i)
    kernel[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return kernel;
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST(KernelCache, IsForItsUserAlone) {
  const mode_t umask_before = umask(0);
  const Folder folder;
  const codegen::KernelCache cache(folder.path + "/home/.cache/sinter");
  cache.insert(kKey, some_kernel(1));
  umask(umask_before);
  const fs::path entry = cache.path(kKey);
  EXPECT_EQ(mode_of(entry), 0600u);
  for (fs::path at = entry.parent_path(); at != folder.path; at = at.parent_path())
    EXPECT_EQ(mode_of(at), 0700u) << at;
  EXPECT_EQ(cache.find(kKey), some_kernel(1));
}

TEST(KernelCache, WhatOthersMayHaveWrittenIsNotUsed) {
  const Folder folder;
  const codegen::KernelCache cache(folder.path + "/cache");
  cache.insert(kKey, some_kernel(1));
  const fs::path entry = cache.path(kKey), entries = entry.parent_path(),
                 whole = entries.parent_path();
  for (const fs::path& path : {entry, entries, whole}) {
    for (const mode_t extra : {0020u, 0002u}) {
      const mode_t before = mode_of(path);
      ASSERT_EQ(chmod(path.c_str(), before | extra), 0);
      EXPECT_FALSE(cache.find(kKey)) << path << extra;
      ASSERT_EQ(chmod(path.c_str(), before), 0);
      EXPECT_TRUE(cache.find(kKey)) << path << extra;
    }
    if (geteuid() != 0) continue;  // who alone may give files away
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(cache.find(kKey)) << path;
    if (path != entry) {
      cache.insert(kKey, some_kernel(2));
      EXPECT_FALSE(cache.find(kKey)) << path;
    }
    ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
    EXPECT_EQ(cache.find(kKey), some_kernel(1)) << path;
  }
  // A folder of ours that was made with other modes becomes one.
  ASSERT_EQ(chmod(whole.c_str(), 0775), 0);
  ASSERT_EQ(chmod(entries.c_str(), 0777), 0);
  cache.insert(kKey, some_kernel(3));
  EXPECT_EQ(cache.find(kKey), some_kernel(3));
}

// Readers beside writers of the same keys, and one who damages entries: whole kernels or none.
TEST(KernelCache, EightThreadsShareOneFolder) {
  const Folder folder;
  const codegen::KernelCache cache(folder.path + "/cache");
  constexpr int kKeys = 4, kRounds = 50;
  const auto key = [](int i) { return kKey + std::to_string(i); };
  for (int i = 0; i < kKeys; ++i) cache.insert(key(i), some_kernel(i));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const int i = (round + t) % kKeys;
        if (t == 0) std::ofstream(cache.path(key(i)), std::ios::app) << 'x';
        if (t % 2 == 1) cache.insert(key(i), some_kernel(i));
        const auto found = cache.find(key(i));
        if (found && *found != some_kernel(i)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (int i = 0; i < kKeys; ++i) {
    cache.insert(key(i), some_kernel(i));
    EXPECT_EQ(cache.find(key(i)), some_kernel(i));
  }
}

TEST(KernelCache, LinksPipesAndFoldersAreNoEntries) {
  const Folder folder;
  const codegen::KernelCache cache(folder.path + "/cache");
  cache.insert(kKey, some_kernel(1));
  const fs::path entry = cache.path(kKey);
  const fs::path kept = folder.path + "/kept";
  fs::rename(entry, kept);
  alarm(60);  // ends a test that waits for a pipe
  fs::create_symlink(kept, entry);
  EXPECT_FALSE(cache.find(kKey));
  fs::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  EXPECT_FALSE(cache.find(kKey));
  cache.insert(kKey, some_kernel(2));
  EXPECT_EQ(cache.find(kKey), some_kernel(2));
  fs::remove(entry);
  fs::create_directory(entry);
  EXPECT_FALSE(cache.find(kKey));
  alarm(0);
}

TEST(KernelCache, WritesThroughNoPlantedLink) {
  const Folder folder;
  const codegen::KernelCache cache(folder.path + "/cache");
  const fs::path entry = cache.path(kKey), victim = folder.path + "/victim";
  std::ofstream(victim) << "mine";
  cache.insert(kKey, some_kernel(1));
  fs::remove(entry);
  fs::create_symlink(victim, entry);
  for (int i = 0; i < 100; ++i)
    fs::create_symlink(victim, entry.string() + fmt::format(".{}.{}.tmp", getpid(), i));
  cache.insert(kKey, some_kernel(2));
  EXPECT_EQ(cache.find(kKey), some_kernel(2));
  EXPECT_EQ(fs::file_size(victim), 4u);
}

TEST(KernelCache, AFolderThatCannotBeMadeCachesNothing) {
  const Folder folder;
  std::ofstream(folder.path + "/file") << "in the way";
  const std::string cache = folder.path + "/file/cache";
  EXPECT_FALSE(compile({copy_source()}, kHopper, cache)[0][0].from_cache);
  EXPECT_FALSE(compile({copy_source()}, kHopper, cache)[0][0].from_cache);
}

}  // namespace
}  // namespace sinter::test
#endif
