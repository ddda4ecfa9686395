// SPDX-License-Identifier: Apache-2.0
// Reading and writing files: what is there is not lost, and nothing is waited for.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/file_error.h>
#include <sinter/operators.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/libraries/tuning_cache.h"
#include "tests/runtime/api/api_plans.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = ::testing::TempDir() + "sinter_files_XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    ::alarm(120);  // ends a test that waits for a pipe
  }
  ~FilesTest() override {
    ::alarm(0);
    fs::remove_all(folder);
  }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  std::string pipe(const std::string& name) const {
    EXPECT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }
  static std::string read(const std::string& name) {
    std::ifstream stream(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }

  fs::path folder;
};

/// Both ways to write: without a name until the end, and with one beside.
class Files : public FilesTest, public ::testing::WithParamInterface<bool> {
 protected:
  static files::OutputOptions options() { return {.what = "it", .needs_a_name = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(, Files, ::testing::Bool(), [](const auto& info) {
  return info.param ? "WithATemporaryName" : "WithoutAName";
});

TEST_P(Files, AppearWholeOrNotAtAll) {
  const std::string name = file("a", "old");
  {
    files::OutputFile output(name, options());
    output.write("new, ");
    output.write("and longer");
    output.rewrite_start(std::as_bytes(std::span("NEW", 3)));
    EXPECT_EQ(read(output.readable_path()), "NEW, and longer");
    EXPECT_EQ(read(name), "old");
  }
  EXPECT_EQ(read(name), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
  for (const std::string& target : {name, path("b")}) {
    files::OutputFile output(target, options());
    output.write("new");
    EXPECT_EQ(output.size(), 3u);
    output.commit();
    EXPECT_EQ(read(target), "new");
  }
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_P(Files, HaveTheModeThatTheUmaskLeaves) {
  const mode_t before = ::umask(027);
  files::write_file(path("a"), "x", options());
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_P(Files, ALinkIsReplacedAndNotWrittenThrough) {
  const std::string victim = file("victim", "mine");
  fs::create_symlink(victim, path("link"));
  files::write_file(path("link"), "new", options());
  EXPECT_EQ(read(victim), "mine");
  EXPECT_EQ(read(path("link")), "new");
}

TEST_P(Files, WhatCannotBeWrittenIsSaid) {
  EXPECT_THAT(usage_of([&] { files::write_file("/nowhere/a", "x", options()); }),
              HasSubstr("cannot write it '/nowhere/a': No such file"));
  EXPECT_THAT(usage_of([&] { files::write_file(folder, "x", options()); }), HasSubstr("folder"));
  EXPECT_THAT(usage_of([&] { files::write_file("/dev/full", "x", options()); }),
              HasSubstr("No space left"));
  EXPECT_THAT(usage_of([&] { files::write_file(pipe("p"), "x", options()); }),
              HasSubstr("nobody reads"));
  EXPECT_THAT(names(), ElementsAre("p"));
}

TEST_P(Files, PipesAndDevicesAreWrittenToAndStay) {
  const std::string name = pipe("p");
  std::string got;
  std::thread reader([&] { got = read(name); });
  // Until the reader has it open there is nobody.
  for (bool done = false; !done;) try {
      files::write_file(name, "through", options());
      done = true;
    } catch (const Error&) {
      std::this_thread::yield();
    }
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(name));
  // A device of the test's own: a defect shall not cost the machine its /dev/null.
  if (::mknod(path("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    const files::Descriptor probe(::open(path("null").c_str(), O_WRONLY));
    if (probe) {
      files::write_file(path("null"), "gone", options());
      plan::write_plan(doubling().parts(), path("null"));
    }
    EXPECT_TRUE(fs::is_character_file(path("null")));
  }
}

TEST_P(Files, NamesOfTheSystemAreNotReplaced) {
  // As /dev/stdout, which may well be a regular file.
  const files::Descriptor open(::open(file("a", "").c_str(), O_WRONLY));
  files::write_file("/dev/fd/" + std::to_string(open.get()), "through", options());
  EXPECT_EQ(read(path("a")), "through");
}

TEST_P(Files, NothingIsLeftByASignal) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    // A file with a name is removed by a handler, which none has for SIGKILL.
    if (signal == SIGKILL && GetParam()) continue;
    const pid_t child = ::fork();
    if (child == 0) {
      if (GetParam())
        ::signal(signal, [](int) {
          files::remove_temporary_files();
          ::_exit(0);
        });
      files::OutputFile output(path("a"), options());
      output.write("half of it");
      ::raise(signal);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(FilesTest, OnlyRegularOnesAreRead) {
  EXPECT_EQ(files::read_file(file("a", "text")), "text");
  EXPECT_EQ(files::read_file(file("empty", "")), "");
  const std::string fifo = pipe("p");
  EXPECT_THAT(usage_of([&] { files::read_file(fifo, "file"); }),
              HasSubstr("file '" + fifo + "' cannot be read: it is a pipe"));
  EXPECT_THAT(usage_of([&] { files::read_file("/dev/zero"); }), HasSubstr("it is a device"));
  EXPECT_THAT(usage_of([&] { files::read_file(folder); }), HasSubstr("it is a folder"));
  EXPECT_THAT(usage_of([&] { files::read_file(path("none")); }), HasSubstr("No such file"));
  EXPECT_THAT(usage_of([&] { files::read_file(path("a"), "", 3); }), HasSubstr("4 bytes"));
  for (const bool copy : {false, true}) {
    LoadOptions load;
    load.copy = copy;
    EXPECT_THAT(usage_of([&] { Plan::load(fifo, load); }), HasSubstr("it is a pipe"));
    EXPECT_THAT(usage_of([&] { Plan::load("/dev/zero", load); }), HasSubstr("it is a device"));
  }
  EXPECT_THAT(usage_of([&] { runtime::check_tuning_file(fifo); }), HasSubstr("it is a pipe"));
  EXPECT_TRUE(runtime::read_tuning_file(fifo).empty());
}

TEST_F(FilesTest, ErrorsHaveThePathAndTheNumber) {
  const auto number_of = [](const std::string& wanted, const auto& call) {
    try {
      call();
    } catch (const FileError& error) {
      EXPECT_EQ(error.path(), wanted);
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.number();
    }
    return -1;
  };
  const std::string none = path("none"), fifo = pipe("p"), beyond = path("none/a");
  const auto read_with = [&](const auto& read) {
    EXPECT_EQ(number_of(none, [&] { read(none); }), ENOENT);
    EXPECT_EQ(number_of(folder, [&] { read(folder); }), EISDIR);
  };
  read_with([](const std::string& name) { files::read_file(name); });
  read_with([](const std::string& name) { files::open_stream(name); });
  read_with([](const std::string& name) { Plan::load(name); });
  read_with([](const std::string& name) { OperatorLibrary::open(name); });
  EXPECT_EQ(number_of(fifo, [&] { files::read_file(fifo); }), 0);
  EXPECT_EQ(number_of(beyond, [&] { files::write_file(beyond, "x"); }), ENOENT);
  EXPECT_EQ(number_of(folder, [&] { files::write_file(folder, "x"); }), EISDIR);
  std::string line;
  std::ifstream stream = files::open_stream(file("a", "one\ntwo"));
  EXPECT_TRUE(std::getline(stream, line) && line == "one");
}

TEST_F(FilesTest, OutputsAreNotInputs) {
  const std::string input = file("input", "x");
  fs::create_hard_link(input, path("hard"));
  fs::create_symlink(input, path("soft"));
  for (const char* name : {"input", "hard", "soft", "./input"})
    EXPECT_THAT(usage_of([&] {
                  files::check_output(path(name), {"", path("none"), input});
                }),
                HasSubstr("the same file"))
        << name;
  EXPECT_THAT(usage_of([&] { files::check_output(folder, {input}); }), HasSubstr("folder"));
  files::check_output(path("other"), {input});
  files::check_output(file("another", "x"), {input});
  files::check_output("", {""});
  files::check_output("/dev/null", {"/dev/null"});
}

TEST_F(FilesTest, ACopiedPlanDoesNotNeedItsFile) {
  const std::string name = path("a.plan");
  PlanBuilder p;
  const Id two = p.constant(2), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {two});
  const Id y = p.output("y", DType::kFloat32, {two});
  const Id w = p.weight(DType::kFloat32, std::vector<float>{3, 5});
  LoopBuilder loop({two}, 0);
  loop.store(loop.access(y, zero, {one}),
             loop.op(ScalarOp::kMul, {loop.load(loop.access(x, zero, {one})),
                                      loop.load(loop.access(w, zero, {one}))}));
  p.loop("scale", std::move(loop));
  plan::write_plan(p.parts(), name);
  LoadOptions load;
  load.copy = true;
  const Plan plan = Plan::load(name, load);
  EXPECT_EQ(plan.path(), name);
  ASSERT_EQ(::truncate(name.c_str(), 0), 0);
  Session session(plan, on_one_thread());
  session.set_input("x", {2}, std::vector<float>{1, 2});
  session.run();  // reads the weights, which a mapping would no longer have
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(3, 10));
}

}  // namespace
}  // namespace sinter::testing
