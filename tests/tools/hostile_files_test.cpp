// SPDX-License-Identifier: Apache-2.0
// Files and names that somebody means ill with, or that are not what they are taken for.
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sinter/compiler.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "ir/text/shown.h"
#include "runtime/files/output_file.h"
#include "tests/tools/cli_fixture.h"
#include "tools/cli/signals.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HostileFiles : public CliTest {
 protected:
  HostileFiles() { ::alarm(300); }  // ends a test that waits for a pipe
  ~HostileFiles() override { ::alarm(0); }

  static std::string npy(const std::string& header, const std::string& data) {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() & 0xff);
    bytes += static_cast<char>(header.size() >> 8);
    return bytes + header + data;
  }
  std::string refusal(const std::string& bytes) const {
    try {
      tools::read_npy(write("a.npy", bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "accepted";
  }
  std::string pipe(const std::string& name) const {
    EXPECT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }
  void expect_usage(const std::vector<std::string>& words, const std::string& text) {
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
  }
};

TEST_F(HostileFiles, HeadersOfArraysAreParsed) {
  const std::string data(8, '\0');
  const auto shape_of = [&](const std::string& header, const std::string& bytes) {
    return tools::read_npy(write("a.npy", npy(header, bytes))).shape();
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n", data),
            (Shape{2}));
  EXPECT_EQ(shape_of("{\"shape\":(1,2),\"descr\":\"<f4\",\"fortran_order\":False}", data),
            (Shape{1, 2}));
  EXPECT_EQ(shape_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 4L)}", data),
            (Shape{2, 4}));
  EXPECT_EQ(shape_of("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", data), Shape{});
  EXPECT_EQ(shape_of("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7)}", ""),
            (Shape{0, 7}));
}

TEST_F(HostileFiles, ColumnMajorArraysAreTurned) {
  // numpy.asfortranarray(numpy.arange(12).reshape(2, 3, 2)) as it lies.
  const std::string bytes = {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11};
  const auto read = [&](const std::string& shape, const std::string& data) {
    return tools::read_npy(
               write("a.npy",
                     npy("{'descr': '|i1', 'fortran_order': True, 'shape': " + shape + "}", data)))
        .to_ints();
  };
  std::vector<std::int64_t> in_order(12);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(read("(2, 3, 2)", bytes), in_order);
  EXPECT_EQ(read("(3,)", bytes.substr(0, 3)), (std::vector<std::int64_t>{0, 6, 2}));
  EXPECT_EQ(read("()", "\7"), std::vector<std::int64_t>{7});
  EXPECT_TRUE(read("(0, 7)", "").empty());
}

TEST_F(HostileFiles, ArraysOfStringsBecomeIntegersWhereTheyMay) {
  const tools::TextTargets lengths =
      [](const std::string& name) -> std::optional<tools::TextTarget> {
    if (name != "words") return std::nullopt;
    return tools::TextTarget{DType::kInt32, [](std::string_view text) {
                               return static_cast<std::int64_t>(text.size());
                             }};
  };
  const auto read = [&](const std::string& descr, const std::string& data,
                        const std::string& name = "words") {
    const std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (2,)}";
    return tools::read_npy(write("a.npy", npy(header, data)), name, {}, lengths);
  };
  // "ab" and U+00FC, which has two bytes in UTF-8; zeros behind are no characters.
  const std::string wide("a\0\0\0b\0\0\0\0\0\0\0\xfc\0\0\0\0\0\0\0\0\0\0\0", 24);
  EXPECT_EQ(read("<U3", wide).to_ints(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(read("<U3", wide).dtype(), DType::kInt32);
  EXPECT_EQ(read("|S3", std::string("abc\0\0\0", 6)).to_ints(), (std::vector<std::int64_t>{3, 0}));
  const auto refused = [&](const std::string& descr, const std::string& data,
                           const std::string& name) -> std::string {
    try {
      read(descr, data, name);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused("<U3", wide, "x"), HasSubstr("is for an input of numbers"));
  EXPECT_THAT(refused("<U3", wide.substr(1), "words"), HasSubstr("needs 24 bytes"));
  EXPECT_THAT(refused("<U99999999999", wide, "words"), HasSubstr("is not supported"));
  EXPECT_THAT(refused("<Ux", wide, "words"), HasSubstr("is not supported"));
  EXPECT_THAT(refusal(npy("{'descr': '|S1', 'fortran_order': False, 'shape': (1,)}", "a")),
              HasSubstr("is for an input of numbers"));
}

TEST_F(HostileFiles, HeadersOfArraysThatAreNone) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string header = good;
    return refusal(npy(header.replace(header.find(from), from.size(), to), std::string(8, '\0')));
  };
  EXPECT_THAT(refusal(npy(good + std::string(60'000, '['), "")), HasSubstr("its header has 60"));
  EXPECT_THAT(refusal(npy("{'descr': " + std::string(9'000, '('), "")), HasSubstr("malformed"));
  EXPECT_THAT(with("(2,)", "(2"), HasSubstr("malformed"));
  EXPECT_THAT(with("(2,)", "(-2,)"), HasSubstr("malformed"));
  EXPECT_THAT(with("(2,)", "(2 2)"), HasSubstr("malformed"));
  EXPECT_THAT(with("(2,)", "2"), HasSubstr("malformed"));
  EXPECT_THAT(with("(2,)", "(99999999999999999999,)"), HasSubstr("overflows"));
  EXPECT_THAT(with("(2,)", "(4294967296, 4294967296)"), HasSubstr("overflows"));
  EXPECT_THAT(with("(2,)", "(3,)"), HasSubstr("needs 12 bytes, the file has 8"));
  EXPECT_THAT(with("'<f4'", "[('a', '<f4')]"), HasSubstr("records"));
  EXPECT_THAT(with("'<f4'", "'<c8'"), HasSubstr("'<c8' is not supported"));
  EXPECT_THAT(with("'<f4'", "'<f4"), HasSubstr("type '<f4, ' is not supported"));
  EXPECT_THAT(with("'shape'", "'form'"), HasSubstr("none of NumPy's"));
  EXPECT_THAT(with(", 'shape': (2,)", ""), HasSubstr("lacks"));
  EXPECT_THAT(with("}", "} x"), HasSubstr("malformed"));
  for (const std::size_t size : {0, 5, 8, 9, 10, 30})
    EXPECT_THAT(refusal(npy(good, "").substr(0, size)),
                size < 10 ? HasSubstr("not a NumPy array") : HasSubstr("truncated"))
        << size;
}

void put(std::string& bytes, std::initializer_list<std::pair<int, std::uint32_t>> fields) {
  for (const auto& [size, value] : fields)
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

/// An archive whose members all are the same `packed` bytes and say that they become `size`.
std::string archive(const std::vector<std::string>& members, const std::string& packed,
                    std::uint32_t size) {
  constexpr int kDeflate = 8;
  const auto packed_size = static_cast<std::uint32_t>(packed.size());
  const auto length = [](const std::string& name) {
    return static_cast<std::uint32_t>(name.size());
  };
  std::string bytes;
  put(bytes, {{4, 0x04034b50}, {2, 20}, {2, 0}, {2, kDeflate}, {4, 0}, {4, 0}});
  put(bytes, {{4, packed_size}, {4, size}, {2, length(members[0])}, {2, 0}});
  bytes += members[0] + packed;
  const auto directory = static_cast<std::uint32_t>(bytes.size());
  for (const std::string& name : members) {
    put(bytes, {{4, 0x02014b50}, {2, 20}, {2, 20}, {2, 0}, {2, kDeflate}, {4, 0}, {4, 0}});
    put(bytes, {{4, packed_size}, {4, size}, {2, length(name)}, {2, 0}, {2, 0}, {2, 0}});
    put(bytes, {{2, 0}, {4, 0}, {4, 0}});
    bytes += name;
  }
  const auto end = static_cast<std::uint32_t>(bytes.size());
  const auto count = static_cast<std::uint32_t>(members.size());
  put(bytes, {{4, 0x06054b50}, {2, 0}, {2, 0}, {2, count}, {2, count}});
  put(bytes, {{4, end - directory}, {4, directory}, {2, 0}});
  return bytes;
}

TEST_F(HostileFiles, ArchivesHoldWhatTheySay) {
  const auto plan = compile_small();
  const std::string packed(100, '\0');
  expect_usage({"run", plan, "--inputs", write("a.npz", archive({"x.npy"}, packed, 0xf0000000))},
               "cannot hold");
  expect_usage({"run", plan, "--inputs",
                write("a.npz", archive({"x.npy", "y.npy", "z.npy", "u.npy", "v.npy"},
                                       std::string(2000, '\0'), 5000))},
               "cannot hold");
}

TEST_F(HostileFiles, ArraysThatThePlanCannotTakeAreNotRead) {
  const auto plan = compile_small();
  const auto damaged = [&](const std::string& name, const ir::Tensor& tensor) {
    tools::write_npz(path("in.npz"), {{name, tensor}});
    std::string bytes = read(path("in.npz"));
    bytes[bytes.find("), }") + 300] ^= 1;  // in the data: whoever reads them sees a wrong checksum
    return write("in.npz", bytes);
  };
  const auto tensor = [](const std::vector<std::int64_t>& shape, DType type = DType::kFloat32) {
    std::int64_t count = 1;
    for (const auto dim : shape) count *= dim;
    return ir::Tensor::from_doubles(type, shape, std::vector<double>(count, 1));
  };
  const auto run = [&](const std::string& file, const std::string& text) {
    expect_usage({"run", plan, "--inputs", file}, text);
  };
  run(damaged("x", tensor({20, 8})), "cannot be read");
  run(damaged("z", tensor({20, 8})), "there is no input 'z'");
  run(damaged("x", tensor({20, 8, 2})), "rank 3");
  run(damaged("x", tensor({20, 9})), "the array given has 9");
  run(damaged("x", tensor({40, 8}, DType::kInt16)), "has type f32");
  expect_usage({"run", plan, "--shapes=x:20x8", "--expected", damaged("y", tensor({20, 9}))},
               "expected is [20, 9]");
}

TEST_F(HostileFiles, MutatedArraysAreReadOrRefused) {
  const std::vector<float> values(16, 0.25F);
  tools::write_npz(path("in.npz"), {{"x", ir::Tensor::of<float>(DType::kFloat32, {2, 8}, values)},
                                    {"y", ir::Tensor::of<float>(DType::kFloat32, {16}, values)}});
  const std::string archive = read(path("in.npz"));
  const std::string array =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }  \n", std::string(8, '\1'));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool is_archive = i % 2 == 0;
    std::string bytes = is_archive ? archive : array;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % bytes.size();
      if (random() % 8 == 0)
        bytes.erase(at, 1 + random() % 8);
      else
        bytes[at] = static_cast<char>(random() % 4 == 0 ? "'(),:0{}"[random() % 8] : random());
      if (bytes.empty()) break;
    }
    const std::string file = write(is_archive ? "m.npz" : "m.npy", bytes);
    try {
      is_archive ? (void)tools::read_npz(file) : (void)tools::read_npy(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST_F(HostileFiles, PipesAreNotWaitedFor) {
  const auto plan = compile_small();
  const auto fifo = pipe("p"), array = pipe("p.npz");
  expect_usage({"compile", fifo, "-o", path("a.plan"), "--target=cpu"}, "it is a pipe");
  expect_usage({"inspect", fifo}, "it is a pipe");
  expect_usage({"run", fifo}, "it is a pipe");
  expect_usage({"run", plan, "--inputs", array}, "it is a pipe");
  expect_usage({"run", plan, "--inputs", "x=" + fifo}, "it is a pipe");
  expect_usage({"run", plan, "--expected", fifo}, "it is a pipe");
#ifdef SINTER_WITH_CUDA
  expect_usage({"compile", path("model.onnx"), "-o", path("a.plan"), "--target=cuda:sm_90",
                "--tuning-cache", fifo},
               fifo);
#endif
  expect_usage({"generate", plan, "--ids", fifo}, "it is a pipe");
  expect_usage({"generate", plan, "--tokenizer", fifo, "--prompt", "x"}, "it is a pipe");
  expect_usage({"run", "/dev/zero"}, "it is a device");
  expect_usage({"compile", "/dev/zero", "-o", path("a.plan")}, "it is a device");
  EXPECT_FALSE(std::filesystem::exists(path("a.plan")));
}

TEST_F(HostileFiles, InputsAreNotWrittenOver) {
  const auto plan = compile_small();
  const auto model = path("model.onnx");
  const std::string model_bytes = read(model), plan_bytes = read(plan);
  std::filesystem::create_hard_link(model, path("hard.plan"));
  std::filesystem::create_symlink(model, path("soft.plan"));
  const std::vector<std::string> names = {model, path("hard.plan"), path("soft.plan")};
  for (const auto& name : names)
    expect_usage({"compile", model, "-o", name, "--target=cpu"}, "the same file");
  expect_usage({"run", plan, "--outputs", plan}, "the same file");
  EXPECT_EQ(sinter({"run", plan, "--shapes=x:2x8", "--outputs", path("y.npz")}).code, 0);
  expect_usage({"run", plan, "--expected", path("y.npz"), "--outputs", path("y.npz")},
               "the same file");
  const std::vector<float> values(16, 0.25F);
  tools::write_npz(path("in.npz"), {{"x", ir::Tensor::of<float>(DType::kFloat32, {2, 8}, values)}});
  expect_usage({"run", plan, "--inputs", path("in.npz"), "--outputs", path("in.npz")},
               "the same file");
  expect_usage({"compile", model, "-o", path("in.npz"), "--target=cpu", "--verify", "--inputs",
                path("in.npz")},
               "the same file");
  expect_usage({"verify", model, "--target=cpu", "--reduce", model}, "the same file");
  EXPECT_EQ(read(model), model_bytes);
  EXPECT_EQ(read(plan), plan_bytes);
}

TEST_F(HostileFiles, ExternalDataAreNotWrittenOver) {
  auto model = small_model();
  make_external(model.mutable_graph()->mutable_initializer(0), "weights");
  const std::string weights(8 * 4 * 4, 'x');
  write("weights", weights);
  expect_usage({"compile", save(model), "-o", path("weights"), "--target=cpu"}, "the same file");
  EXPECT_EQ(read(path("weights")), weights);
}

TEST_F(HostileFiles, DevicesStayWhatTheyAre) {
  // One of the test's own: a defect shall not cost the machine its /dev/null.
  const auto device = path("null");
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
      ::close(::open(device.c_str(), O_WRONLY)) != 0)
    GTEST_SKIP() << "devices cannot be made here";
  const auto model = save(small_model());
  EXPECT_EQ(sinter({"compile", model, "-o", device, "--target=cpu"}).code, 0);
  EXPECT_EQ(sinter({"run", compile_small(), "--outputs", device}).code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file(device));
}

TEST_F(HostileFiles, OutputThatIsLostIsAnError) {
  const auto plan = compile_small();
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"inspect", plan}, {"inspect", plan, "--json"}, {"ops"}, {"--help"}}) {
    std::fflush(stdout);
    const int kept = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY);
    ASSERT_GE(full, 0);
    ::dup2(full, STDOUT_FILENO);
    testing::internal::CaptureStderr();
    std::vector<std::string> words = verb;
    words.insert(words.begin(), "sinter");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    const int code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data());
    const std::string err = testing::internal::GetCapturedStderr();
    ::dup2(kept, STDOUT_FILENO);
    ::close(kept);
    ::close(full);
    EXPECT_EQ(code, 2) << verb.back();
    EXPECT_THAT(err, HasSubstr("error: standard output cannot be written"));
    EXPECT_THAT(err, Not(HasSubstr("defect")));
  }
  EXPECT_EQ(sinter({"inspect", plan}).code, 0);
}

TEST_F(HostileFiles, SignalsLeaveNoTemporaryFile) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const tools::CleanUpOnSignals signals;
      files::OutputFile output(path("a.plan"), {.needs_a_name = true});
      output.write("half of it");
      ::raise(signal);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
  // A library has put the handlers back without their flags, as NVRTC does.
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    const tools::CleanUpOnSignals signals;
    ::signal(SIGTERM, ::signal(SIGTERM, SIG_DFL));
    ::raise(SIGTERM);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  // What is ignored stays so, as under nohup.
  const auto before = ::signal(SIGHUP, SIG_IGN);
  {
    const tools::CleanUpOnSignals signals;
    ::raise(SIGHUP);
  }
  EXPECT_EQ(::signal(SIGHUP, before), SIG_IGN);
}

TEST_F(HostileFiles, TheCacheIsNeverAtTheRoot) {
  struct Environment {
    explicit Environment(const char* name) : name(name) {
      if (const char* value = std::getenv(name)) before = value;
    }
    ~Environment() { before ? setenv(name, before->c_str(), 1) : unsetenv(name); }
    const char* name;
    std::optional<std::string> before;
  };
  const Environment sinter_dir("SINTER_CACHE_DIR"), xdg("XDG_CACHE_HOME"), home("HOME");
  unsetenv("SINTER_CACHE_DIR");
  const auto with = [](const char* cache, const char* home_folder) {
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home_folder, 1);
    return default_kernel_cache();
  };
  EXPECT_EQ(with("/c", "/h"), "/c/sinter");
  EXPECT_EQ(with("", "/h"), "/h/.cache/sinter");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/sinter");
  EXPECT_EQ(with("", ""), "");
  EXPECT_EQ(with("", "relative"), "");
}

TEST_F(HostileFiles, NamesAreShownEscaped) {
  // A line of its own, a cleared screen, a byte that is not UTF-8, and reversed text.
  const std::string evil = "\nerror: forged\x1b[2J\xff\r\xe2\x80\xae\xc2\x9b";
  const auto named = [&](const std::string& name) { return name + evil; };
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name(named("exporter"));
  model.add_opset_import()->set_version(17);
  auto* graph = model.mutable_graph();
  graph->set_name(named("graph"));
  value(graph->add_input(), named("x"), {named("batch"), "8"});
  value(graph->add_output(), named("y"), {named("batch"), "8"});
  node(graph, "Relu", named("relu"), {named("x")}, named("t"));
  node(graph, "Exp", named("exp"), {named("t")}, named("y"));
  const auto good = save(model), plan = path("evil.plan");
  auto unknown = model;
  unknown.mutable_graph()->mutable_node(0)->set_op_type(named("Rely"));
  auto dangling = model;
  dangling.mutable_graph()->mutable_node(0)->set_input(0, named("nothing"));

  const auto check = [&](const std::vector<std::string>& words, int code) {
    const auto result = sinter(words);
    const std::string what = words[0] + " " + words.back();
    EXPECT_EQ(result.code, code) << what << "\n" << result.err;
    const std::string text = "\n" + result.out + result.err;
    for (const char* raw : {"\x1b", "\xff", "\r", "\xe2\x80\xae", "\xc2\x9b"})
      EXPECT_THAT(result.out + result.err, Not(HasSubstr(raw))) << what;
    // One error is on stderr if there is one, and it begins the text.
    EXPECT_THAT(result.out, Not(HasSubstr("\nerror:"))) << what;
    EXPECT_THAT(result.err, Not(HasSubstr("\nerror:"))) << what;
    EXPECT_EQ(result.err.starts_with("error:"), code != 0) << what;
    return result;
  };
  const auto check_json = [&](std::vector<std::string> words, int code) {
    words.emplace_back("--json");
    const auto result = sinter(words);
    EXPECT_EQ(result.code, code) << words[0] << result.err;
    EXPECT_NO_THROW(json::parse(result.out)) << result.out;
  };
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{"compile", good, "-o", plan, "--target=cpu"}, 0},
      {{"compile", good, "-o", plan, "--target=cpu", "--verify", "--explain-fusion"}, 0},
      {{"inspect", good}, 0},
      {{"inspect", good, "--graph"}, 0},
      {{"inspect", good, "--steps", "--target=cpu"}, 0},
      {{"inspect", good, "--target=cpu", "--why", named("relu"), named("exp")}, 0},
      {{"inspect", plan}, 0},
      {{"inspect", plan, "--graph"}, 0},
      {{"inspect", plan, "--steps"}, 0},
      {{"run", plan}, 0},
      {{"bench", plan, "--iterations=2"}, 0},
      {{"verify", good, "--target=cpu"}, 0},
      {{"verify", good, "--target=cpu", "--per-node"}, 0},
      {{"run", plan, "--shapes=z:2x8"}, 2},
      {{"compile", save(unknown, "unknown.onnx"), "-o", path("no.plan"), "--target=cpu"}, 3},
      {{"compile", save(dangling, "dangling.onnx"), "-o", path("no.plan"), "--target=cpu"}, 4}};
  for (const auto& [words, code] : cases) {
    check(words, code);
    check_json(words, code);
  }
  EXPECT_THAT(check({"run", plan, "--shapes=z:2x8"}, 2).err,
              HasSubstr("the inputs are x\\nerror: forged\\x1b[2J\\xff"));
  EXPECT_THAT(check({"inspect", plan}, 0).out,
              HasSubstr("input x\\nerror: forged\\x1b[2J\\xff\\r\\u202e\\u009b: f32["));
}

TEST(Shown, EscapesWhatIsNotText) {
  EXPECT_EQ(ir::shown("plain/Näme_日本 🙂"), "plain/Näme_日本 🙂");
  EXPECT_EQ(ir::shown("a\tb\nc\r\x07\x7f"), "a\\tb\\nc\\r\\x07\\x7f");
  EXPECT_EQ(ir::shown_lines("a\tb\nc\r"), "a\tb\nc\\r");
  EXPECT_EQ(ir::shown(std::string("\0", 1)), "\\x00");
  // Cut short, overlong, a surrogate, beyond the last character.
  EXPECT_EQ(ir::shown("\xe6\x97"), "\\xe6\\x97");
  EXPECT_EQ(ir::shown("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(ir::shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(ir::shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(ir::shown("\xc2\x85|\xe2\x80\xa8|\xe2\x81\xa6"), "\\u0085|\\u2028|\\u2066");
}

}  // namespace
}  // namespace sinter::tests
