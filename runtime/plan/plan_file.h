// SPDX-License-Identifier: Apache-2.0
// A plan on its way into a file.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/files/output_file.h"
#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A whole plan that takes the name `path` by commit(), as files::OutputFile does.
class PlanFile {
 public:
  /// Throws Error(kUsage) if the plan cannot be written there.
  PlanFile(const PlanParts& parts, std::string path);

  std::uint64_t size() const { return file_.size(); }
  /// A pipe or a device, which the plan has gone to and is not read from.
  bool is_stream() const { return file_.is_stream(); }
  /// By what the plan can be read before it has its name. Not of a stream.
  std::string readable_path() const { return file_.readable_path(); }
  void commit() { file_.commit(); }

 private:
  files::OutputFile file_;
};

}  // namespace sinter::plan
