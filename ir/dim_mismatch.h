// The error of two dimensions that an operator needs to be equal.
#pragma once

#include <string>
#include <utility>

#include <sinter/error.h>

#include "ir/dim.h"

namespace sinter::ir {

/// `a` and `b` must be equal and are not known to be. Whoever knows what the model's inputs may be
/// can decide that they are (see the importer's assumptions); to others it is an invalid model.
class DimMismatch : public Error {
 public:
  DimMismatch(Dim a, Dim b, std::string message)
      : Error(ErrorCode::kInvalidModel, std::move(message)), a_(std::move(a)), b_(std::move(b)) {}
  const Dim& a() const noexcept { return a_; }
  const Dim& b() const noexcept { return b_; }

 private:
  Dim a_, b_;
};

}  // namespace sinter::ir
