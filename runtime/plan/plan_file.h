// SPDX-License-Identifier: Apache-2.0
// A plan file during writing.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/files/output_file.h"
#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A complete plan that commit() renames to `path`, as files::OutputFile does.
class PlanFile {
 public:
  /// Throws Error(kUsage) if the plan cannot be written there.
  PlanFile(const PlanParts& parts, std::string path);

  std::uint64_t size() const { return file_.size(); }
  /// A pipe or a device: the plan has been written to it and cannot be read back.
  bool is_stream() const { return file_.is_stream(); }
  /// A path for reading the plan before commit(). Not for streams.
  std::string readable_path() const { return file_.readable_path(); }
  void commit() { file_.commit(); }

 private:
  files::OutputFile file_;
};

}  // namespace sinter::plan
