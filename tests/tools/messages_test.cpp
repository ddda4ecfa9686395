// SPDX-License-Identifier: Apache-2.0
// Messages name options that exist (compiler_messages_test.cpp: that the library has names for).
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

/// Options in the string literals of `folder`'s sources, each with a file that has it.
std::map<std::string, std::string> options_in(const std::string& folder) {
  const std::regex literal(R"re("(?:[^"\\\n]|\\.)*")re"), option(R"((^|[^\w-])(--[A-Za-z][\w-]*))");
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(source_dir()) / folder)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.find_first_not_of(' ') == line.find("//")) continue;
      for (std::sregex_iterator at(line.begin(), line.end(), literal), end; at != end; ++at) {
        const std::string text = at->str();
        for (std::sregex_iterator name(text.begin(), text.end(), option); name != end; ++name)
          found.emplace((*name)[2].str(), entry.path().string());
      }
    }
  }
  return found;
}

// Of programs that are called or recommended: tools/setup, NVRTC, nvcc, llama-gguf-split.
const std::set<std::string> kOfOtherPrograms = {
    "--cuda",         "--cudnn",
    "--quantization",  // CTranslate2's converters
    "--test",         "--merge",
    "--python",       "--cubin",
    "--std",          "--device-as-default-execution-space",
    "--include-path", "--gpu-architecture",
    "--use_fast_math"};

class MessagesTest : public CliTest {
 protected:
  /// Options of all verbs.
  std::set<std::string> options() {
    std::set<std::string> all;
    const std::regex option(R"(--[A-Za-z][\w-]*)");
    for (const char* verb : {"compile", "run", "generate", "bench", "compare", "inspect", "refit",
                             "sign", "verify", "profile", "ops", "doctor"}) {
      const std::string help = sinter({verb, "--help"}).out;
      for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at)
        all.insert(at->str());
    }
    return all;
  }
};

TEST_F(MessagesTest, NameOptionsThatExist) {
  const std::set<std::string> known = options();
  ASSERT_TRUE(known.contains("--dim"));
  for (const char* folder : {"frontend", "ir", "fusion", "codegen", "runtime", "tools/compiler",
                             "tools/generate", "tools/tokenizer"}) {
    for (const auto& [option, file] : options_in(folder))
      EXPECT_TRUE(known.contains(option) || kOfOtherPrograms.contains(option))
          << file << " names " << option;
  }
}

}  // namespace
}  // namespace sinter::tests
