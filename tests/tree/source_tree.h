// SPDX-License-Identifier: Apache-2.0
// The repository's sources and what they include.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace sinter::testing {

/// A directed graph: nodes by name, with the names that each one leads to.
using Edges = std::map<std::string, std::set<std::string>>;

/// The includes of a text, in order: `ir/graph.h`, `sinter/error.h`, `vector`.
std::vector<std::string> includes_of(const std::string& text);

/// What every source (.h .cpp .cuh .c .cu) of the repository includes.
class SourceTree {
 public:
  /// Reads the tree that the tests were built from, once.
  static const SourceTree& get();

  /// Paths from the root, "ir/graph.h".
  const std::vector<std::string>& files() const { return files_; }
  /// What `file` includes, as written.
  const std::vector<std::string>& includes(const std::string& file) const {
    return includes_.at(file);
  }
  /// The file that `file` means by `include`; empty: it is none of ours.
  std::string resolve(const std::string& file, const std::string& include) const;
  /// From each file to the files of ours that it includes.
  const Edges& edges() const { return edges_; }

 private:
  SourceTree();

  std::vector<std::string> files_;
  std::map<std::string, std::vector<std::string>> includes_;
  std::map<std::string, std::string> device_headers_;  // by name: kernels name no folder
  Edges edges_;
};

/// The path without its extension: a header and the source that implements it are one component,
/// and so is `x_internal.h`, which the sources of `x.h` alone share.
std::string component_of(const std::string& file);

/// The sets of nodes that reach each other, of two or more, each sorted.
std::vector<std::vector<std::string>> cycles_in(const Edges& edges);

}  // namespace sinter::testing
