// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "ir/text/text.h"
#include "tests/support/paths.h"

namespace sinter::gpu_test {
namespace {

namespace fs = std::filesystem;

/// Below the current folder, if that is a tree's root: the tree need not lie where it was built.
fs::path case_folder() {
  const fs::path here = "tests/gpu/cases";
  return fs::exists(here) ? here : source_dir() / here;
}

/// "batch=1 seq=64; batch=3 seq=17"
std::vector<ir::Bindings> parse_sizes(const std::string& text) {
  std::vector<ir::Bindings> sizes;
  std::istringstream runs(text);
  for (std::string run; std::getline(runs, run, ';');) {
    ir::Bindings& bindings = sizes.emplace_back();
    std::istringstream words(run);
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) throw std::logic_error("no size: " + word);
      bindings[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
    }
  }
  return sizes;
}

Case read_case(const fs::path& path) {
  std::ifstream file(path);
  Case test;
  test.name = path.stem().string();
  const auto value_of = [](const std::string& line, const std::string& key) {
    return line.starts_with(key) ? line.substr(key.size()) : "";
  };
  for (std::string line; std::getline(file, line);) {
    if (const std::string sizes = value_of(line, "# sizes: "); !sizes.empty())
      test.sizes = parse_sizes(sizes);
    else if (line == "# types: as written")
      test.has_half = false;
    else
      test.text += line + '\n';
  }
  return test;
}

std::vector<Case> read_cases() {
  std::vector<Case> all;
  for (const auto& entry : fs::directory_iterator(case_folder()))
    if (entry.path().extension() == ".graph") all.push_back(read_case(entry.path()));
  if (all.empty()) throw std::logic_error("no cases in " + case_folder().string());
  std::sort(all.begin(), all.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return all;
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = read_cases();
  return all;
}

const Case& case_named(const std::string& name) {
  for (const Case& test : cases())
    if (test.name == name) return test;
  throw std::logic_error("no case " + name);
}

ir::Graph graph_of(const Case& test, DType type) {
  // In front of a shape, and as the last attribute of a node.
  static const std::regex pattern("\\bT(?=[\\[}])");
  return ir::parse_graph(std::regex_replace(test.text, pattern, std::string(to_string(type))));
}

}  // namespace sinter::gpu_test
