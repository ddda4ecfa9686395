// SPDX-License-Identifier: Apache-2.0
// `compile --entry`: several lists of steps over one set of weights and states.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>
#include <sinter/sinter.h>

#include "fusion/narrow_dims.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/options/entries.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kDecoder = source_dir() + "/models/tiny/decoder.onnx";

class EntryTest : public CliTest {
 protected:
  std::string compile(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compile", kDecoder, "-o", path(name), "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path(name);
  }
};

/// Greedy tokens by a session: as many of the prompt at a time as an entry point takes.
std::vector<std::int64_t> greedy(const std::string& path, std::vector<std::int64_t> prompt,
                                 std::size_t count) {
  constexpr std::int64_t kCapacity = 48;
  Session session(Plan::load(path));
  std::map<std::string, std::vector<std::int64_t>> caches;
  for (const BindingInfo& input : session.plan().inputs())
    for (std::size_t d = 0; input.state && d < input.shape.size(); ++d)
      caches[input.name].push_back(std::clamp(kCapacity, input.shape[d].min, input.shape[d].max));
  session.reset_state(caches);
  const auto entries = session.plan().entries();
  std::vector<std::int64_t> tokens;
  for (std::int64_t position = 0; tokens.size() < count;) {
    std::int64_t part = entries.empty() ? std::ssize(prompt) : 0;
    for (const EntryInfo& entry : entries) {
      const std::int64_t most = std::min(std::ssize(prompt), entry.limits.at(0).max);
      if (most >= entry.limits.at(0).min) part = std::max(part, most);
    }
    session.set_input("input_ids", {1, part},
                      std::vector<std::int64_t>(prompt.begin(), prompt.begin() + part));
    session.set_input("position", {1}, std::vector<std::int64_t>{position});
    session.run();
    position += part;
    prompt.erase(prompt.begin(), prompt.begin() + part);
    if (!prompt.empty()) continue;
    const auto logits = session.output("logits").as<float>();
    tokens.push_back(std::ranges::max_element(logits) - logits.begin());
    prompt = {tokens.back()};
  }
  return tokens;
}

const std::vector<std::string> kTwo = {"--entry", "prefill:sequence=2..32", "--entry",
                                       "decode:sequence=1"};

TEST_F(EntryTest, TheyShareCachesOfEightBits) {
  const auto tokens = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--cache-precision=int8"};
    options.insert(options.end(), more.begin(), more.end());
    return greedy(compile("plan", options), {1, 2, 3, 4, 5}, 8);
  };
  EXPECT_EQ(tokens(kTwo), tokens({"--serve=off"}));
}

TEST_F(EntryTest, PrefillAndDecodeShareWeightsAndCaches) {
  std::ifstream file(source_dir() + "/tests/tools/goldens/greedy.json");
  const json goldens = json::parse(file)["decoder"];
  for (const char* prefill :
       {"prefill:sequence=2..32", "prefill:sequence=2..4", "prefill:sequence=4"}) {
    const auto plan = compile("plan", {"--entry", prefill, "--entry", "decode:sequence=1"});
    // Prompts of 1, 5 and 11 tokens: in one run, in parts, and token by token.
    for (const auto& golden : goldens)
      EXPECT_EQ(json(greedy(plan, golden["prompt"], golden["tokens"].size())), golden["tokens"])
          << prefill;
  }
}

TEST_F(EntryTest, WeightsAreThereOnce) {
  const Plan one = Plan::load(compile("one", {"--serve=off"}));
  const Plan two = Plan::load(compile("two", kTwo));
  EXPECT_EQ(two.weight_bytes(), one.weight_bytes());
  // No more than if it were the only one.
  EXPECT_LE(PlanAccess::data(two)->meta.entries[1]->step_count,
            Plan::load(compile("alone", {"--dim", "sequence=1"})).step_count());
  EXPECT_EQ(two.inputs().size(), one.inputs().size());
  ASSERT_EQ(two.entries().size(), 2U);
  EXPECT_EQ(two.entries()[0].limits.at(0).max, 32);
  EXPECT_EQ(two.inputs()[0].shape[1].text, "sequence");
  EXPECT_EQ(two.inputs()[0].shape[1].min, 1);
  EXPECT_EQ(two.inputs()[0].shape[1].max, 32);
  const auto inspected = sinter({"inspect", path("two")});
  EXPECT_THAT(inspected.out, AllOf(HasSubstr("entry prefill: sequence 2..32, "),
                                   HasSubstr("entry decode: sequence 1, "),
                                   HasSubstr("entry=prefill:sequence=2..32")));
  const auto steps =
      sinter({"inspect", path("two"), "--steps", "--shapes", "input_ids:1x1,past_key_0:1x2x16x8"});
  EXPECT_THAT(steps.out, AllOf(HasSubstr("decode: "), testing::Not(HasSubstr("prefill: "))));
  EXPECT_EQ(
      sinter({"inspect", path("two"), "--memory", "--shapes", "input_ids:1x3,past_key_0:1x2x16x8"})
          .code,
      0);
}

TEST_F(EntryTest, EachIsVerified) {
  for (const char* shapes :
       {"input_ids:1x1,past_key_0:1x2x16x8", "input_ids:1x7,past_key_0:1x2x16x8"}) {
    std::vector<std::string> words = {"verify", kDecoder, "--target=cpu", "--shapes", shapes};
    words.insert(words.end(), kTwo.begin(), kTwo.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.out << result.err;
  }
}

TEST_F(EntryTest, WhatIsOfOneListOfStepsIsDoneForEach) {
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), kTwo.begin(), kTwo.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  const auto both = [](const char* first, const char* second) {
    return testing::ContainsRegex(std::string("entry prefill: sequence=2..32\n(.|\n)*") + first +
                                  "(.|\n)*entry decode: sequence=1\n(.|\n)*" + second);
  };
  const std::vector<std::string> verify = {"verify", kDecoder, "--target=cpu", "--shapes",
                                           "past_key_0:1x2x16x8"};
  const auto with = [&](const std::string& option) {
    auto words = verify;
    words.push_back(option);
    return words;
  };
  EXPECT_THAT(run(with("--per-node")).out, both(" 0 of ", " 0 of "));
  EXPECT_THAT(run(with("--bisect")).out, both("regions are within", "regions are within"));
  const auto nodes = json::parse(run({"verify", kDecoder, "--target=cpu", "--per-node", "--json",
                                      "--shapes", "input_ids:1x7,past_key_0:1x2x16x8"})
                                     .out);
  ASSERT_EQ(nodes["entries"].size(), 1U);  // the other does not take the shapes
  EXPECT_EQ(nodes["entries"][0]["entry"], "prefill");
  EXPECT_FALSE(nodes["entries"][0]["regions"].empty());
  EXPECT_THAT(run({"compile", kDecoder, "--target=cpu", "--stop-after", "simplify"}).out,
              both("input_ids: i64\\[1, sequence\\]", "input_ids: i64\\[1, 1\\]"));
  run({"compile", kDecoder, "--target=cpu", "-o", path("plan"), "--dump-ir",
       "after:find_states,after:simplify", "--dump-dir", path("dump")});
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(path("dump")))
    files.push_back(file.path().filename().string());
  EXPECT_THAT(files, testing::UnorderedElementsAre("00_after_find_states.txt",
                                                   "01_decode_after_simplify.txt",
                                                   "02_prefill_after_simplify.txt"));
}

#ifdef SINTER_WITH_CUDA
// A kernel for up to eight rows has as many blocks as those need.
TEST_F(EntryTest, KernelsAreMadeForTheSizesOfTheirEntryPoint) {
  const auto model =
      write("model.sinter",
            "graph @g(%x: f32[n, 8], %y: f32[n, 24], %z: f32[16]) ranges {n: 1..2048} {\n"
            "  %a = Relu(%x)\n  %b = Exp(%y)\n  %c = Tanh(%z)\n"
            "  return a = %a, b = %b, c = %c\n}\n");
  const auto result = sinter({"compile", model, "-o", path("plan"), "--target=cuda:sm_90",
                              "--entry=few:n=1..8", "--entry=many:n=1..2048"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Plan plan = Plan::load(path("plan"));
  const auto& meta = PlanAccess::data(plan)->meta;
  ASSERT_EQ(meta.entries.size(), 2U);
  const auto has_sizes_in_grid = [&](std::size_t entry) {
    bool has = false;
    for (std::uint32_t s = 0; s < meta.entries[entry]->step_count; ++s) {
      const auto& step = *meta.steps[meta.entries[entry]->first_step + s];
      const auto* kernel = step.work.AsKernelStep();
      if (kernel == nullptr) continue;
      const auto& grid = kernel->variants.front()->grid;
      has = has || meta.expressions[grid[0]].op() != plan::fb::ExprOp::Constant;
    }
    return has;
  };
  EXPECT_FALSE(has_sizes_in_grid(0));
  EXPECT_TRUE(has_sizes_in_grid(1));
}
#endif

#ifdef SINTER_WITH_CUDA
// A token of one text in the plan that decoders compile to: what a plan of that alone runs, and
// what draws the token.
TEST_F(EntryTest, OneTokenOfAPagedPlanTakesFewKernels) {
  const auto steps = [&](std::vector<std::string> more, const char* entry) {
    more.insert(more.begin(), {"compile", kDecoder, "-o", path("plan"), "--target=cuda:sm_90",
                               "--precision=fp16"});
    const auto result = sinter(more);
    EXPECT_EQ(result.code, 0) << result.err;
    const Plan plan = Plan::load(path("plan"));
    const auto& meta = PlanAccess::data(plan)->meta;
    for (const auto& each : meta.entries)
      if (each->name == entry) return static_cast<std::size_t>(each->step_count);
    return meta.steps.size();
  };
  const std::size_t alone = steps({"--serve=off", "--dim", "sequence=1"}, "");
  EXPECT_LE(steps({}, "one"), alone + 3);
}
#endif

TEST_F(EntryTest, WhatCannotBeIsRefused) {
  const auto error = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", kDecoder, "-o", path("plan"), "--target=cpu"});
    const auto result = sinter(more);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error({"--entry", "sequence=1"}), HasSubstr("is no entry point: write NAME:DIM="));
  EXPECT_THAT(error({"--entry", "a:sequence=4..2"}), HasSubstr("is no entry point"));
  EXPECT_THAT(error({"--entry", "a:length=1"}), HasSubstr("no symbolic dimension 'length'"));
  EXPECT_THAT(error({"--entry", "a:sequence=1", "--entry", "a:sequence=2"}),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(error({"--entry", "a:sequence=0..4"}), HasSubstr("of which 0..4 is no part"));
  std::vector<std::string> words = {"verify", kDecoder, "--target=cpu", "--reduce", path("r")};
  words.insert(words.end(), kTwo.begin(), kTwo.end());
  EXPECT_THAT(sinter(words).err, HasSubstr("--reduce is of one list of steps"));
  words = {"verify",     kDecoder,   "--target=cpu",
           "--per-node", "--shapes", "input_ids:1x99,past_key_0:1x2x128x8"};
  words.insert(words.end(), kTwo.begin(), kTwo.end());
  EXPECT_THAT(sinter(words).err,
              AllOf(HasSubstr("no entry point takes these shapes"), HasSubstr("decode: ")));
  compile("gap", {"--entry", "a:sequence=4..8", "--entry", "b:sequence=1"});
  const auto none = sinter({"run", path("gap"), "--shapes", "input_ids:1x3,past_key_0:1x2x16x8"});
  EXPECT_THAT(none.err, HasSubstr("no entry point of the plan takes these shapes"));
}

TEST_F(EntryTest, DimensionsOfGraphTextCanBeNarrowed) {
  const auto model = write("model.txt",
                           "graph @main(%x: f32[n, m]) ranges {n: 1..8, m: 1..4} {\n"
                           "  %y = ReduceSum(%x) {axes = [1], keepdims = 0}\n"
                           "  %z = Reshape(%y) {shape = [n, 1]}\n"
                           "  %i = Iota() {shape = [n, 1], axis = 0, dtype = i64}\n"
                           "  %s = Size() {value = [n + 2], dtype = i64}\n"
                           "  %k = Add(%i, %s)\n  return z = %z, k = %k\n}\n");
  const auto result = sinter({"compile", model, "--target=cpu", "--dim", "n=3", "--dim", "m=2..3",
                              "--stop-after", "find_states"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("%x: f32[3, m]"), HasSubstr("m: 2..3"), HasSubstr("shape = [3, 1]")));
  // What is generated from a size that is known is a constant.
  const auto one =
      sinter({"compile", model, "--target=cpu", "--dim", "n=1", "--stop-after", "find_states"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("const i64[1, 1] {0}"), HasSubstr("const i64[] {3}"),
                             testing::Not(HasSubstr("Iota"))));
  EXPECT_THAT(sinter({"compile", model, "--target=cpu", "--dim", "n=9"}).err,
              HasSubstr("dimension 'n' is 1 to 8, of which 9..9 is no part"));
  EXPECT_THAT(sinter({"compile", model, "--target=cpu", "--dim", "n=m"}).err,
              HasSubstr("neither made equal nor multiples"));
}

TEST(Entries, HullIsOfWhatAllLimit) {
  const std::vector<EntryOptions> options = {parse_entry("a:n=2..5,m=1"), parse_entry("b:n=1")};
  const auto entries = tools::limits_of(options);
  const auto hull = tools::hull_of(
      entries, ir::parse_graph("graph @g(%x: f32[n, m]) ranges {n: 1..9, m: 1..9} {\n"
                               "  return x = %x\n}\n"));
  ASSERT_EQ(hull.size(), 1U);
  EXPECT_EQ(hull.at("n").min, 1);
  EXPECT_EQ(hull.at("n").max, 5);
}

}  // namespace
}  // namespace sinter::tests
