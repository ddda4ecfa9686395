// SPDX-License-Identifier: Apache-2.0
// What the command says of itself: --help, `sinter help`, completion, "did you mean".
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"
#include "tools/cli/help/help_text.h"
#include "tools/cli/help/topics.h"
#include "tools/compiler/options/option_values.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "a 'b c'" as words, up to a redirection.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : command) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return {words.begin(), std::ranges::find(words, ">")};
}

class HelpTest : public CliTest {
 protected:
  std::vector<std::string> verbs() {
    std::vector<std::string> names;
    const json listed = json::parse(sinter({"help", "--json"}).out);
    for (const auto& verb : listed.at("verbs")) names.push_back(verb.at("name"));
    return names;
  }
  json help_of(const std::string& verb) {
    return json::parse(sinter({"help", verb, "--json"}).out);
  }
};

TEST_F(HelpTest, FitsEightyColumnsInGroupsWithExamples) {
  ASSERT_GT(verbs().size(), 12U);
  for (const std::string& verb : verbs()) {
    const auto result = sinter({verb, "--help"});
    EXPECT_EQ(result.code, 0) << verb;
    EXPECT_THAT(result.out, HasSubstr("Usage: sinter " + verb));
    EXPECT_THAT(result.out, HasSubstr("\nExamples:\n")) << verb;
    for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 80U) << line;
    // Every option has a heading of its own kind, and what takes a value says which.
    const json help = help_of(verb);
    for (const auto& option : help.at("options")) {
      EXPECT_NE(option.at("group"), "Options") << verb << ' ' << option;
      const std::string type = option.at("type");
      EXPECT_THAT(type, Not(HasSubstr("TEXT:"))) << option;
      EXPECT_EQ(type.find_first_of("[]"), std::string::npos) << option;
      EXPECT_TRUE(type.empty() || type[0] != std::tolower(type[0])) << option;
    }
  }
  for (const std::string& line : lines_of(sinter({"--help"}).out)) EXPECT_LE(line.size(), 80U);
}

TEST_F(HelpTest, OptionsWithValuesSayOfWhatType) {
  const std::string help = sinter({"compile", "--help"}).out;
  for (const char* shown : {"--output FILE", "--minShapes SHAPES", "--precision DTYPE",
                            "--math precise|short", "--serve[=SIZES]", "--jobs N"})
    EXPECT_THAT(help, HasSubstr(shown));
}

TEST_F(HelpTest, SlipsAreNamed) {
  const auto model = save(small_model());
  const auto expect = [&](std::vector<std::string> words, const char* hint) {
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << hint;
    EXPECT_THAT(result.err, HasSubstr(hint));
    words.emplace_back("--json");
    EXPECT_THAT(json::parse(sinter(words).out).at("error").dump(), HasSubstr(hint));
  };
  expect({"compil", model}, "there is no verb 'compil': did you mean 'compile'?");
  expect({"compile", model, "--precison=fp16"}, "did you mean '--precision'?");
  expect({"compile", model, "--precision=fp17"}, "did you mean 'fp16'?");
  expect({"compile", model, "--target=cpu", "--dim", "bacth=4"}, "did you mean 'batch'?");
  expect({"compile", model, "--target=cpu", "--entry", "all:bacth=4"}, "did you mean 'batch'?");
  expect({"compile", model, "--target=cpu", "--minShapes=xx:4x8"}, "did you mean 'x'?");
  expect({"compile", model, "--target=cpu", "--disable-pass=simplfy"}, "did you mean 'simplify'?");
  expect({"compile", model, "--target=cpu", "--dump-ir=after:fuse_matmull"},
         "did you mean 'fuse_matmul'?");
  expect({"ops", "Covn"}, "did you mean 'Conv'?");
  expect({"help", "optons"}, "did you mean 'options'?");
  expect({"inspect", model, "--why", "prodct", "bias"}, "did you mean 'product'?");
  // Nothing near, nothing said.
  EXPECT_THAT(sinter({"compile", model, "--qqqqqq"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(HelpTest, OneOperatorIsListed) {
  const auto report = json::parse(sinter({"ops", "Conv", "--json"}).out);
  for (const auto& op : report.at("operators")) EXPECT_EQ(op.at("operator"), "Conv");
  EXPECT_FALSE(report.at("operators").empty());
}

TEST_F(HelpTest, TopicsHavePages) {
  for (const tools::Topic& topic : tools::topics()) {
    const auto result = sinter({"help", topic.name});
    EXPECT_EQ(result.code, 0) << topic.name;
    EXPECT_GT(result.out.size(), 400U) << topic.name;
    EXPECT_FALSE(topic.summary.empty());
  }
  EXPECT_THAT(sinter({"help"}).out, HasSubstr("plan-format"));
  // A verb that is a topic, too, shows both.
  EXPECT_THAT(sinter({"help", "refit"}).out,
              testing::AllOf(HasSubstr("Usage: sinter refit"), HasSubstr("safetensors")));
  EXPECT_EQ(tools::page_text("# T\n\na [b](c.md) d\ne\n- f\n  g\n\n| x |\n", 80),
            "# T\n\na b d e\n- f g\n\n| x |\n");
}

/// Messages name topics that there are, and no pages of a source tree.
TEST_F(HelpTest, MessagesNameTopics) {
  std::set<std::string> known;
  for (const tools::Topic& topic : tools::topics()) known.insert(topic.name);
  for (const std::string& verb : verbs()) known.insert(verb);
  namespace fs = std::filesystem;
  const std::regex literal(R"re("(?:[^"\\\n]|\\.)*")re"), topic("sinter help ([a-z][a-z-]*)");
  for (const char* folder : {"frontend", "ir", "fusion", "codegen", "runtime", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / folder)) {
      const auto kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".h" && kind != ".inc") continue;
      for (const std::string& line : lines_of(read(entry.path().string()))) {
        if (line.find_first_not_of(' ') == line.find("//") || line.starts_with("#include"))
          continue;
        for (std::sregex_iterator at(line.begin(), line.end(), literal), end; at != end; ++at) {
          const std::string text = at->str();
          const bool lists_files = entry.path().filename() == "ops.cpp";  // --markdown
          EXPECT_TRUE(lists_files || text.find(".md") == std::string::npos)
              << entry.path() << ": " << text;
          for (std::sregex_iterator name(text.begin(), text.end(), topic); name != end; ++name)
            EXPECT_TRUE(known.contains((*name)[1].str())) << entry.path() << ": " << text;
        }
      }
    }
}

/// Every example of a verb of this process; the others serve, or ask a terminal.
TEST_F(HelpTest, ExamplesRun) {
  const auto before = std::filesystem::current_path();
  const std::string tiny = source_dir() + "/models/tiny/decoder.onnx";
  save(small_model());
  std::filesystem::copy_file(tiny, path("decoder.onnx"));
  std::ofstream(path("tokenizer.json")) << tiny_tokenizer().dump();
  tools::write_npz(
      path("in.npz"),
      {{"x", ir::Tensor::of<float>(DType::kFloat32, {2, 8}, std::vector<float>(16, 0.5F))}});
  std::filesystem::current_path(folder_);
  ASSERT_EQ(sinter({"compile", "model.onnx", "-o", "model.plan", "--target=cpu"}).code, 0);
  ASSERT_EQ(sinter({"compile", "decoder.onnx", "-o", "decoder.plan", "--target=cpu"}).code, 0);
  ASSERT_EQ(sinter({"sign", "--new-key", "own.key"}).code, 0);
  std::filesystem::remove("own.key");
  int ran = 0;
  for (const std::string& verb : verbs()) {
    const json help = help_of(verb);
    for (const auto& example : help.at("examples")) {
      const std::string command = example.at("command");
      ASSERT_TRUE(command.starts_with("sinter " + verb)) << command;
      if (command.find("cuda") != std::string::npos || verb == "chat") continue;
      std::vector<std::string> words = words_of(command);
      words.erase(words.begin());
      // Short, and on this machine whatever it has.
      if (verb == "bench") words.insert(words.end(), {"--duration", "0.1", "--iterations", "3"});
      if (std::ranges::count(words, "--iterations") == 2) words.resize(words.size() - 2);
      if (verb == "compare" || verb == "profile") words.insert(words.end(), {"--rounds", "2"});
      words.emplace_back("--quiet");
      const auto result = sinter(words);
      EXPECT_EQ(result.code, 0) << command << '\n' << result.err;
      ++ran;
    }
  }
  std::filesystem::current_path(before);
  EXPECT_GT(ran, 25);
}

TEST_F(HelpTest, BenchAndProfileTakeModels) {
  const auto model = save(small_model());
  const auto plan = compile_small();
  const auto bench = sinter({"bench", model, "--target=cpu", "--shapes=x:3x8", "--iterations=2",
                             "--duration=0.1", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(json::parse(bench.out).at("target"), "cpu");
  EXPECT_EQ(sinter({"bench", plan, model, "--shapes=x:3x8", "--iterations=2"}).code, 0);
  const auto profile =
      sinter({"profile", model, "--target=cpu", "--fuse=off", "--rounds=2", "--json"});
  ASSERT_EQ(profile.code, 0) << profile.err;
  EXPECT_GT(json::parse(profile.out).at("steps").size(), 2U);
  // What would do nothing is refused.
  for (const char* verb : {"bench", "profile", "report", "inspect"}) {
    const auto refused = sinter({verb, plan, "--fuse=off"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--fuse is about compiling"));
  }
  // Beside a model the options are the model's.
  const auto page = path("both.html");
  EXPECT_EQ(sinter({"report", plan, "--against", model, "--target=cpu", "--no-profile", "-o", page,
                    "--fuse=off"})
                .code,
            0);
  EXPECT_THAT(sinter({"bench", model, "--require-signature=own.key.pub"}).err,
              HasSubstr("--require-signature needs a plan"));
  EXPECT_EQ(sinter({"bench", path("none.plan")}).code, 2);
}

TEST_F(HelpTest, OptionsAreOneTable) {
  const auto listed = json::parse(sinter({"help", "--options", "--json"}).out).at("options");
  ASSERT_EQ(listed.size(), tools::option_rows().size());
  const json compile = help_of("compile");
  std::set<std::string> flags, keywords;
  for (const auto& option : compile.at("options")) flags.insert(option.at("names"));
  for (const tools::OptionRow& row : tools::option_rows()) {
    EXPECT_FALSE(row.help.empty()) << row.flag;
    EXPECT_TRUE(row.flag.empty() || flags.contains(std::string(row.flag))) << row.flag;
    EXPECT_TRUE(row.keyword.empty() || keywords.insert(std::string(row.keyword)).second)
        << row.keyword;
    // Defaults that help names are what the struct has.
    const auto texts = tools::texts_of(row, CompileOptions());
    if (!row.standard.empty() && !texts.empty() && row.kind != tools::OptionKind::kOther) {
      EXPECT_EQ(texts, std::vector{std::string(row.standard)}) << row.flag;
    }
    // Texts of values are read again.
    if (!row.applied || row.values.empty()) continue;
    for (std::size_t start = 0; start < row.values.size();) {
      const std::size_t bar = std::min(row.values.find('|', start), row.values.size());
      const std::string value(row.values.substr(start, bar - start));
      CompileOptions options;
      tools::set_option(row, value, options);
      EXPECT_EQ(tools::texts_of(row, options), std::vector{value}) << row.flag;
      start = bar + 1;
    }
  }
  EXPECT_EQ(keywords.size(), 49U);
  for (const char* wrong :
       {"--jobs=x", "--max-layer-error=x", "--smooth=x", "--packed=x", "--max-compile-memory=x"})
    EXPECT_EQ(sinter({"compile", save(small_model()), "--target=cpu", wrong}).code, 2) << wrong;
}

TEST_F(HelpTest, ManifestsSayWhatIsNotTheDefault) {
  CompileOptions options;
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(tools::recorded_options(options, {}), (Pairs{{"fuse", "on"}, {"precision", "model"}}));
  options.packed = true;
  options.bounds = {{"a", 3}, {"b", 4}};
  options.programmatic_launch = false;
  options.disabled_passes = {"simplify"};
  EXPECT_EQ(
      tools::recorded_options(options, {.generates_kernels = true, .approximates_functions = true}),
      (Pairs{{"fuse", "on"},
             {"precision", "model"},
             {"disable-pass", "simplify"},
             {"programmatic-launch", "off"},
             {"math", "short"},
             {"bound", "a=3"},
             {"bound", "b=4"},
             {"packed", "on"}}));
}

/// What a shell prints for `script`.
std::string run_shell(const std::string& command) {
  std::string out;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get()))
    out += static_cast<char>(c);
  return out;
}

TEST_F(HelpTest, CompletesInBash) {
  const auto script = write("sinter.bash", sinter({"completion", "bash"}).out);
  const auto complete = [&](const std::string& words) {
    const std::string line = write("try.bash", ". " + script + "\nCOMP_WORDS=(" + words +
                                                   ")\nCOMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))\n"
                                                   "_sinter\necho \"${COMPREPLY[@]}\"\n");
    return run_shell("cd " + folder_.string() + " && bash --norc " + line + " 2>&1");
  };
  EXPECT_EQ(complete("sinter comp"), "compile compare completion\n");
  EXPECT_EQ(complete("sinter compile --prec"), "--precision\n");
  EXPECT_EQ(complete("sinter compile --precision = f"), "fp16 fp8\n");
  EXPECT_EQ(complete("sinter compile --math p"), "precise\n");
  EXPECT_EQ(complete("sinter help tok"), "tokenizer\n");
  EXPECT_EQ(complete("sinter --wi"), "--wide\n");
  write("some.npz", "");
  EXPECT_EQ(complete("sinter run --inputs som"), "some.npz\n");
  EXPECT_EQ(sinter({"completion", "csh"}).code, 2);
}

TEST_F(HelpTest, CompletesInZshAndFish) {
  const auto zsh = write("_sinter", sinter({"completion", "zsh"}).out);
  const auto fish = write("sinter.fish", sinter({"completion", "fish"}).out);
  EXPECT_THAT(read(zsh), HasSubstr("compdef _sinter sinter"));
  EXPECT_THAT(read(fish), HasSubstr("complete -c sinter"));
  if (!run_shell("command -v zsh").empty()) {
    EXPECT_EQ(run_shell("zsh -n " + zsh + " 2>&1"), "");
    EXPECT_EQ(run_shell("zsh -f -c 'autoload -U compinit; compinit -D -d " + path("dump") + "; . " +
                        zsh + "; print $_comps[sinter]' 2>&1"),
              "_sinter\n");
  }
  if (!run_shell("command -v fish").empty()) {
    const auto complete = [&](const std::string& words) {
      return run_shell("HOME=" + folder_.string() + " fish --no-config -c 'source " + fish +
                       "; complete -C \"" + words + "\"' 2>&1 | cut -f1 | tr '\\n' ' '");
    };
    EXPECT_EQ(complete("sinter comp"), "compare compile completion ");
    EXPECT_EQ(complete("sinter compile --precision f"), "fp8 fp16 ");
    EXPECT_EQ(complete("sinter help tok"), "tokenizer ");
  }
}

TEST(WrappedText, IsFilledUpToItsWidth) {
  EXPECT_EQ(tools::wrap("a b c", 2, 5), "a b\n  c");
  EXPECT_EQ(tools::wrap("longer b", 0, 3), "longer\nb");
  EXPECT_EQ(tools::wrap("", 4), "");
}

}  // namespace
}  // namespace sinter::tests
