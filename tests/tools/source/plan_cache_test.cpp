// SPDX-License-Identifier: Apache-2.0
// Models that verbs compile on first use: the cache of plans, and what a model's argument may be.
#include "tools/source/plan_cache.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/error.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"
#include "tools/source/file_hash.h"
#include "tools/source/hub.h"

namespace sinter::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using tools::PlanCache;

class PlanCacheTest : public CliTest {
 protected:
  PlanCacheTest() { save(small_model()); }
  CliResult run(std::vector<std::string> more = {}, const std::string& model = "model.onnx") {
    std::vector<std::string> words = {"run", path(model), "--shapes=x:2x8", "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& one : fs::directory_iterator(path("cache") + "/plans", none))
      if (fs::exists(one.path() / PlanCache::kPlan)) found.push_back(one.path());
    return found;
  }
  static bool compiled(const CliResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err.find("compiling") != std::string::npos;
  }
};

TEST_F(PlanCacheTest, AModelIsCompiledOnce) {
  EXPECT_TRUE(compiled(run()));
  EXPECT_EQ(entries().size(), 1u);
  const auto again = run();
  EXPECT_FALSE(compiled(again));
  // The contents decide, not the name.
  fs::copy_file(path("model.onnx"), path("other.onnx"));
  EXPECT_TRUE(compiled(run({}, "other.onnx")));  // the name is in the plan
  EXPECT_FALSE(compiled(run({}, "other.onnx")));
  fs::create_directory(path("elsewhere"));
  fs::copy_file(path("model.onnx"), path("elsewhere/model.onnx"));
  EXPECT_FALSE(compiled(run({}, "elsewhere/model.onnx")));
}

TEST_F(PlanCacheTest, OptionsAndContentsHavePlansOfTheirOwn) {
  EXPECT_TRUE(compiled(run()));
  EXPECT_TRUE(compiled(run({"--fuse=off"})));
  EXPECT_FALSE(compiled(run({"--fuse=off"})));
  EXPECT_FALSE(compiled(run({"--jobs=1"})));  // decides about no plan
  auto changed = small_model();
  changed.mutable_graph()->mutable_initializer(0)->set_float_data(0, 7);
  save(changed);
  EXPECT_TRUE(compiled(run()));
  EXPECT_FALSE(compiled(run()));
}

TEST_F(PlanCacheTest, ExternalDataAreContents) {
  auto model = small_model();
  auto* weights = model.mutable_graph()->mutable_initializer(0);
  std::string bytes(8 * 4 * sizeof(float), '\0');
  make_external(weights, "weights.bin");
  save(model);
  write("weights.bin", bytes);
  EXPECT_TRUE(compiled(run()));
  EXPECT_FALSE(compiled(run()));
  bytes[3] = 0x3f;
  write("weights.bin", bytes);
  EXPECT_TRUE(compiled(run()));
  EXPECT_FALSE(compiled(run()));
}

/// A model that is named without a folder, whose data lie beside it.
TEST_F(PlanCacheTest, AModelMayLieInTheWorkingDirectory) {
  auto model = small_model();
  make_external(model.mutable_graph()->mutable_initializer(0), "weights.bin");
  save(model);
  write("weights.bin", std::string(8 * 4 * sizeof(float), '\0'));
  const fs::path before = fs::current_path();
  fs::current_path(path(""));
  const std::vector<std::string> words = {"run", "model.onnx", "--shapes=x:2x8", "--target=cpu"};
  const bool first = compiled(sinter(words)), again = compiled(sinter(words));
  fs::current_path(before);
  EXPECT_TRUE(first);
  EXPECT_FALSE(again);
  EXPECT_FALSE(compiled(run()));
}

TEST_F(PlanCacheTest, FilesOfOptionsAreContents) {
  EXPECT_TRUE(compiled(run({"--outputs", path("x.npz"), "--plan", path("kept.plan")})));
  EXPECT_EQ(run({}, "kept.plan").code, 2);  // --target is about compiling
  EXPECT_EQ(sinter({"run", path("kept.plan"), "--shapes=x:2x8"}).code, 0);
  const auto bad = sinter({"run", path("kept.plan"), "--plan", path("again.plan")});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("is a plan already"));
}

TEST_F(PlanCacheTest, ADamagedEntryIsMadeAnew) {
  EXPECT_TRUE(compiled(run()));
  const std::string plan = (entries().at(0) / PlanCache::kPlan).string();
  std::string bytes = read(plan);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(plan, std::ios::binary) << bytes;
  const auto mended = run();
  EXPECT_TRUE(compiled(mended));
  EXPECT_THAT(mended.err, HasSubstr("damaged"));
  EXPECT_FALSE(compiled(run()));
  fs::remove(plan);
  EXPECT_TRUE(compiled(run()));
  EXPECT_FALSE(compiled(run()));
}

TEST_F(PlanCacheTest, PlacesAndSizesAreSaid) {
  EXPECT_TRUE(compiled(run({"--plan-cache", path("own")})));
  EXPECT_TRUE(entries().empty());
  EXPECT_FALSE(compiled(run({"--plan-cache", path("own")})));
  const auto off = run({"--plan-cache=off"});
  EXPECT_THAT(off.err, HasSubstr("it is off"));
  EXPECT_TRUE(compiled(run({"--plan-cache=off"})));
  // A limit that no two plans keep: the one that was not used for longest goes.
  EXPECT_TRUE(compiled(run({"--plan-cache-size=1"})));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(compiled(run({"--plan-cache-size=1", "--fuse=off"})));
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_FALSE(compiled(run({"--fuse=off"})));
  EXPECT_EQ(run({"--plan-cache-size=big"}).code, 2);
}

TEST_F(PlanCacheTest, AFolderThatCannotBeUsedIsSaid) {
  write("file", "");
  const auto blocked = run({"--plan-cache", path("file") + "/plans"});
  EXPECT_TRUE(compiled(blocked));
  EXPECT_THAT(blocked.err, HasSubstr("cannot be made"));
  fs::create_directory(path("open"));
  ::chmod(path("open").c_str(), 0777);
  const auto open = run({"--plan-cache", path("open")});
  EXPECT_TRUE(compiled(open));
  EXPECT_THAT(open.err, HasSubstr("others own or can write"));
}

TEST_F(PlanCacheTest, ManyProcessesMakeOneEntry) {
  std::vector<pid_t> children;
  constexpr int kProcesses = 4;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      PlanCache cache({path("shared"), 0});
      const auto entry = cache.get(
          "key",
          [&](const std::string& folder) {
            // As if it took long.
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            std::ofstream(path("made"), std::ios::app) << "x";
            std::ofstream(folder + "/" + PlanCache::kPlan) << "plan";
            return std::string("key");
          },
          [](std::string_view) {});
      std::ifstream file(entry.plan());
      std::string text;
      file >> text;
      ::_exit(text == "plan" ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read(path("made")), "x");
}

/// A compilation that was interrupted leaves its folder, which goes with the next one.
TEST_F(PlanCacheTest, WhatAnEndedProcessLeftIsRemoved) {
  PlanCache cache({path("shared"), 0});
  const auto make = [&](const std::string& key) {
    return cache.get(
        key,
        [&](const std::string& folder) {
          std::ofstream(folder + "/" + PlanCache::kPlan) << "a plan";
          return key;
        },
        [](std::string_view) {});
  };
  for (const char* left : {"same.part.1", "other.part.1", "busy.part.1"}) {
    fs::create_directory(path("shared/" + std::string(left)));
    write("shared/" + std::string(left) + "/model.plan", "half");
  }
  // Somebody writes that one.
  const files::Descriptor lock(::open(path("shared/locks/busy").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  make("same");
  EXPECT_FALSE(fs::exists(path("shared/same.part.1")));
  EXPECT_FALSE(fs::exists(path("shared/other.part.1")));
  EXPECT_TRUE(fs::exists(path("shared/busy.part.1")));
}

/// Disks and quotas have an end: one error says what to do, and nothing is left.
TEST_F(PlanCacheTest, AFileThatMayNotGrowIsAnError) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{8192, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = sinter({"generate", source_dir() + "/models/tiny/decoder.onnx", "--ids=1",
                              "--max-tokens=2", "--plan-cache", path("small"), "--target=cpu"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("File too large (--plan-cache=off does without)"));
  for (const auto& left : fs::directory_iterator(path("small")))
    EXPECT_EQ(left.path().string().find(".part."), std::string::npos) << left.path();
}

TEST_F(PlanCacheTest, AnEntryInUseStays) {
  PlanCache cache({path("shared"), 1});
  const auto make = [&](const std::string& key) {
    return cache.get(
        key,
        [&](const std::string& folder) {
          std::ofstream(folder + "/" + PlanCache::kPlan) << "a plan";
          return key;
        },
        [](std::string_view) {});
  };
  auto first = std::make_optional(make("first"));
  make("second");
  EXPECT_TRUE(cache.find("first").has_value());
  first.reset();
  make("third");
  EXPECT_FALSE(cache.find("first").has_value());
  EXPECT_TRUE(cache.find("third").has_value());
}

TEST_F(PlanCacheTest, HashesAreRememberedUntilAFileChanges) {
  fs::create_directory(path("hashes"));
  const tools::FileHashes hashes(path("hashes"));
  const std::string file = write("data", "one");
  const auto age = [&](int hours) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  age(3);
  const std::string one = hashes.of(file);
  EXPECT_EQ(one, tools::hash_of("one"));
  ASSERT_EQ(std::distance(fs::directory_iterator(path("hashes")), fs::directory_iterator()), 1);
  // What is remembered is taken: not read again.
  const fs::path known = fs::directory_iterator(path("hashes"))->path();
  const std::string text = read(known.string());
  std::ofstream(known) << text.substr(0, text.find('\n') + 1) << std::string(32, 'f');
  EXPECT_EQ(hashes.of(file), std::string(32, 'f'));
  write("data", "two");
  age(2);
  EXPECT_EQ(hashes.of(file), tools::hash_of("two"));
  std::ofstream(known) << "rubbish";
  EXPECT_EQ(hashes.of(file), tools::hash_of("two"));
  EXPECT_THROW(hashes.of(path("none")), Error);
}

// Names of the hub.

class HubTest : public CliTest {
 protected:
  void SetUp() override {
    setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
    const fs::path snapshot = fs::path(path("hub")) / "models--org--name" / "snapshots" / "abc123";
    fs::create_directories(snapshot);
    fs::create_directories(snapshot.parent_path().parent_path() / "refs");
    std::ofstream(snapshot.parent_path().parent_path() / "refs" / "main") << "abc123\n";
    save(small_model());
    fs::rename(path("model.onnx"), snapshot / "model.onnx");
  }
  void TearDown() override { unsetenv("HF_HUB_CACHE"); }
  CliResult run(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run", name, "--shapes=x:2x8", "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }
};

TEST_F(HubTest, NamesAreFoundInTheCache) {
  EXPECT_EQ(run("org/name").code, 0);
  EXPECT_EQ(run("org/name/model.onnx").code, 0);
  EXPECT_EQ(run("org/name", {"--revision=abc123"}).code, 0);
  const auto other = run("org/name", {"--revision=v2"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("at the revision 'v2'"));
}

TEST_F(HubTest, WhatIsMissingIsSaid) {
  const auto missing = run("org/other");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("hf download org/other"));
  EXPECT_THAT(run("org/name/none.gguf").err, HasSubstr("--download gets it"));
  EXPECT_THAT(run(path("none.onnx"), {"--download"}).err, HasSubstr("is of names of the hub"));
  // A reference that leads elsewhere.
  std::ofstream(path("hub") + "/models--org--name/refs/main") << "../../..";
  EXPECT_EQ(run("org/name").code, 2);
}

TEST(HubName, IsNoPath) {
  for (const char* text : {"a", "/a/b", "./a/b", "../a", "a//b", "a/..", "a/b/../c", "a/b.onnx",
                           "a/b.plan", "a/b.gguf", "-a/b", "a b/c"})
    EXPECT_FALSE(tools::HubName::parse(text)) << text;
  EXPECT_EQ(tools::HubName::parse("org/na.me-1")->repository, "org/na.me-1");
  EXPECT_EQ(tools::HubName::parse("org/name/onnx/model.onnx")->file, "onnx/model.onnx");
}

// Folders.

class FolderTest : public CliTest {
 protected:
  void SetUp() override { fs::create_directory(path("folder")); }
  CliResult generate(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"generate",       path("folder"), "--prompt=hello",
                                      "--max-tokens=3", "--no-rates",   "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  }
  void put_decoder() {
    fs::copy_file(source_dir() + "/models/tiny/decoder.onnx", path("folder/model.onnx"));
    std::ofstream(path("folder/tokenizer.json")) << tiny_tokenizer();
  }
};

TEST_F(FolderTest, WhatIsMissingIsSaid) {
  EXPECT_THAT(generate().err, HasSubstr("has no weights"));
  write("folder/config.json", R"({"architectures": ["AlbertModel"], "model_type": "albert"})");
  write("folder/model.safetensors", "");
  EXPECT_THAT(generate().err, AllOf(HasSubstr("'albert'"), HasSubstr("pysinter[export]")));
  write("folder/config.json", "{");
  EXPECT_EQ(generate().code, 2);
  write("folder/config.json",
        R"({"architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": true})");
  EXPECT_THAT(generate().err, HasSubstr("encoder_model.onnx"));
  fs::remove(path("folder/config.json"));
  fs::remove(path("folder/model.safetensors"));
  // What a download has left.
  fs::create_symlink("nothing", path("folder/model.safetensors"));
  write("folder/b.gguf.incomplete", "GGUF");
  EXPECT_THAT(generate().err,
              AllOf(HasSubstr("has no weights"), HasSubstr("'b.gguf.incomplete' is a download"),
                    HasSubstr("'model.safetensors' is a link to nothing")));
  fs::remove(path("folder/model.safetensors"));
  fs::remove(path("folder/b.gguf.incomplete"));
  write("folder/model.safetensors.index.json", "{}");
  EXPECT_THAT(generate().err, HasSubstr("that 'model.safetensors.index.json' names are not there"));
  fs::remove(path("folder/model.safetensors.index.json"));
  // Parts are one model, which is refused where they are read.
  for (const char* part : {"1", "2"})
    write(fmt::format("folder/x-0000{}-of-00002.gguf", part), "GGUF");
  EXPECT_THAT(generate().err, HasSubstr("x-00001-of-00002.gguf'"));
  EXPECT_THAT(generate().err, testing::Not(HasSubstr("name one of")));
  for (const char* part : {"1", "2"})
    fs::remove(path(fmt::format("folder/x-0000{}-of-00002.gguf", part)));
  write("folder/a.gguf", "GGUF");
  write("folder/b.gguf", "GGUF");
  EXPECT_THAT(generate().err, HasSubstr("name one of a.gguf, b.gguf"));
}

TEST_F(FolderTest, OptimumsPairsAreTaken) {
  const std::string tiny = source_dir() + "/models/tiny/optimum_";
  fs::create_directory(path("folder/onnx"));
  fs::copy_file(tiny + "encoder.onnx", path("folder/onnx/encoder_model.onnx"));
  fs::copy_file(tiny + "decoder.onnx", path("folder/onnx/decoder_model_merged.onnx"));
  write("folder/config.json", R"({"is_encoder_decoder": true})");
  std::ifstream file(source_dir() + "/tests/tools/goldens/optimum.json");
  const auto golden = nlohmann::json::parse(file)[0];
  std::string ids;
  for (const auto& id : golden["prompt"]) ids += id.dump() + ",";
  const auto found =
      sinter({"generate", path("folder"), "--ids", ids, "--start=0", "--no-stop", "--max-tokens",
              std::to_string(golden["tokens"].size()), "--no-rates", "--target=cpu", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.err, HasSubstr("compiling the encoder of "));
  EXPECT_EQ(nlohmann::json::parse(found.out)["tokens"], golden["tokens"]);
  // Without a file that says so, which token comes first is not known.
  const auto unknown =
      sinter({"generate", path("folder"), "--ids", ids, "--no-rates", "--target=cpu"});
  EXPECT_THAT(unknown.err, HasSubstr("--start TOKEN"));
}

TEST_F(FolderTest, ItsFilesSayHowTextsAreMade) {
  put_decoder();
  const auto result = generate();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("compiling"), Not(HasSubstr("--serve"))));
  EXPECT_FALSE(result.out.empty());
  // The text, not ids.
  EXPECT_EQ(generate({"--tokenizer", path("folder/tokenizer.json")}).out, result.out);
  // The kept plan has them beside it.
  fs::create_directory(path("kept"));
  ASSERT_EQ(generate({"--plan", path("kept/tiny.plan")}).code, 0);
  EXPECT_TRUE(fs::exists(path("kept/tokenizer.json")));
  const auto kept = sinter(
      {"generate", path("kept/tiny.plan"), "--prompt=hello", "--max-tokens=3", "--no-rates"});
  EXPECT_EQ(kept.out, result.out) << kept.err;
  // A model of conversations that has nothing to say of a text.
  const auto ids = nlohmann::json::parse(generate({"--json"}).out)["tokens"];
  write("folder/chat_template.jinja", "{{ messages[0].content }}");
  const auto silent = generate({"--stop", ids[0].dump()});
  EXPECT_THAT(silent.err, HasSubstr("`sinter chat`"));
  EXPECT_THAT(generate().err, Not(HasSubstr("`sinter chat`")));
  write("kept/tokenizer.json", "{}");
  const auto other = generate({"--plan", path("kept/tiny.plan")});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("another model's"));
}

}  // namespace
}  // namespace sinter::tests
