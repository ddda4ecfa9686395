// A plan on its way into a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A whole plan beside `path`, under a name of its own, that takes the name `path` by commit().
/// What had that name stays as it was until then, and for good without it: this file vanishes.
class PlanFile {
 public:
  /// Throws Error(kUsage) if the plan cannot be written there.
  PlanFile(const PlanParts& parts, std::string path);
  ~PlanFile();
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  const std::string& temporary_path() const { return temporary_; }
  void commit();

 private:
  void write(std::span<const std::byte> bytes) const;
  void discard();
  [[noreturn]] void fail() const;

  std::string path_, temporary_;
  int descriptor_ = -1;  // while the plan is written
};

}  // namespace sinter::plan
