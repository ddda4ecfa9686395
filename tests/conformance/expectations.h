// SPDX-License-Identifier: Apache-2.0
// list.json: the cases that are expected to fail, each with its reason.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::conformance {

/// An entry of the list. `name` is a case's name, in which '*' stands for anything; every case that
/// it matches is meant.
struct Expectation {
  std::string name;
  std::string reason;
  std::set<std::string> targets;  // "cpu", "cuda"
  std::string fuse = {};          // "on", "off": fused or unfused alone
};

class ExpectationList {
 public:
  /// What is expected of a run that fuses, or not. Throws Error(kUsage) if the file cannot be read
  /// or is malformed.
  static ExpectationList load(const std::string& path, bool fuse);
  void save(const std::string& path) const;

  /// The reason why `name` is out of scope, or is expected to fail on `target`; empty if it is not.
  std::string out_of_scope(std::string_view name) const;
  std::string expected_failure(std::string_view name, std::string_view target) const;

  /// Makes the list agree with a run on `target` over all cases: drops entries that match a case
  /// that passed or none at all, and adds the failures that no entry covers, their error as reason.
  void update(std::string_view target, const std::map<std::string, std::string>& failures,
              const std::set<std::string>& passes);
  /// Entries for `target` that match none of `names`: they are stale.
  std::vector<std::string> unmatched(std::string_view target,
                                     const std::set<std::string>& names) const;

 private:
  std::vector<Expectation> out_of_scope_, failures_;
  std::vector<Expectation> other_failures_;  // of the other kind of run
};

/// True if `name` matches `pattern`, in which '*' stands for any text.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace sinter::conformance
