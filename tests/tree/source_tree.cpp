// SPDX-License-Identifier: Apache-2.0
#include "source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"ir",     "frontend", "fusion", "codegen",
                                    "graphs", "runtime",  "tools",  "tests"};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex include("(^|\n)\\s*#\\s*include\\s*[<\"]([^>\"\n]+)[>\"]");
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), include);
       it != std::sregex_iterator(); ++it)
    found.push_back((*it)[2]);
  return found;
}

const SourceTree& SourceTree::get() {
  static const SourceTree tree;
  return tree;
}

SourceTree::SourceTree() {
  const fs::path root = source_dir();
  const std::set<std::string> extensions = {".h", ".cpp", ".cuh", ".c", ".cu"};
  for (const char* folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (extensions.contains(entry.path().extension().string()))
        files_.push_back(fs::relative(entry.path(), root).string());
  std::sort(files_.begin(), files_.end());
  for (const std::string& file : files_) {
    includes_[file] = includes_of(read(root / file));
    if (file.ends_with(".cuh")) device_headers_[fs::path(file).filename().string()] = file;
  }
  for (const std::string& file : files_) {
    auto& targets = edges_[file];
    for (const std::string& include : includes_[file])
      if (const std::string target = resolve(file, include); !target.empty())
        targets.insert(target);
  }
}

std::string SourceTree::resolve(const std::string& file, const std::string& include) const {
  const std::string beside = (fs::path(file).parent_path() / include).lexically_normal().string();
  for (const std::string& path :
       {include, beside, "runtime/include/" + include, "tools/compiler/include/" + include})
    if (includes_.contains(path)) return path;
  const auto header = device_headers_.find(include);
  return header == device_headers_.end() ? "" : header->second;
}

std::string component_of(const std::string& file) {
  std::string path = file.substr(0, file.rfind('.'));
  constexpr std::string_view kInternal = "_internal";
  if (path.ends_with(kInternal)) path.resize(path.size() - kInternal.size());
  return path;
}

std::vector<std::vector<std::string>> cycles_in(const Edges& edges) {
  // Tarjan's algorithm.
  std::map<std::string, std::size_t> index, low;
  std::vector<std::string> stack;
  std::set<std::string> on_stack;
  std::vector<std::vector<std::string>> cycles;
  const std::function<void(const std::string&)> visit = [&](const std::string& node) {
    const std::size_t number = index.size();
    index[node] = low[node] = number;
    stack.push_back(node);
    on_stack.insert(node);
    if (const auto targets = edges.find(node); targets != edges.end())
      for (const std::string& target : targets->second) {
        if (!index.contains(target)) {
          visit(target);
          low[node] = std::min(low[node], low[target]);
        } else if (on_stack.contains(target)) {
          low[node] = std::min(low[node], index[target]);
        }
      }
    if (low[node] != index[node]) return;
    std::vector<std::string> cycle;
    do {
      cycle.push_back(stack.back());
      on_stack.erase(stack.back());
      stack.pop_back();
    } while (cycle.back() != node);
    std::sort(cycle.begin(), cycle.end());
    if (cycle.size() > 1) cycles.push_back(std::move(cycle));
  };
  for (const auto& [node, targets] : edges)
    if (!index.contains(node)) visit(node);
  return cycles;
}

}  // namespace sinter::testing
