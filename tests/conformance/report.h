// SPDX-License-Identifier: Apache-2.0
// What a run found: per case, per operator, and whether it is as listed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace sinter::conformance {

struct Result {
  std::string name;
  std::string op;                // what the case is counted under
  std::string out_of_scope;      // the reason; empty: in scope
  std::string expected_failure;  // the reason; empty: expected to pass
  std::string error, code;       // empty: passed
  std::set<std::string> fixed;   // inputs that were compiled in
  double seconds = 0;

  bool in_scope() const { return out_of_scope.empty(); }
  bool passed() const { return in_scope() && error.empty(); }
  bool unexpected() const { return in_scope() && error.empty() != expected_failure.empty(); }
};

struct Report {
  std::string target;  // "cpu" or "cuda"
  std::vector<Result> results;
  std::vector<std::string> stale;  // entries of the list that match no case

  bool as_expected() const;
  std::map<std::string, std::string> failures() const;  // name -> error
  std::set<std::string> passes() const;
  /// A table by operator, the unexpected results, and the totals.
  void print(bool verbose) const;
  void save(const std::string& path, const std::string& commit, const std::string& target_option,
            bool fuse) const;
};

/// The operator that a case is about: that of its only node, or of all of its nodes.
std::string operator_of(const onnx::ModelProto& model);

}  // namespace sinter::conformance
