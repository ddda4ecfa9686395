// The error of two dimensions that must be equal, and what needs them to be.
#pragma once

#include <string>
#include <utility>

#include <sinter/error.h>

#include "ir/dim/dim.h"

namespace sinter::ir {

/// `a` and `b` must be equal and are not known to be. Whoever knows what the model's inputs may be
/// can decide that they are (see the importer's assumptions); to others it is an error of `code`.
class DimMismatch : public Error {
 public:
  DimMismatch(Dim a, Dim b, std::string message, ErrorCode code = ErrorCode::kInvalidModel)
      : Error(code, std::move(message)), a_(std::move(a)), b_(std::move(b)) {}
  const Dim& a() const noexcept { return a_; }
  const Dim& b() const noexcept { return b_; }

 private:
  Dim a_, b_;
};

/// Throws DimMismatch with the text that `message()` returns unless `a` is `b`.
template <typename Message>
void require_equal(const Dim& a, const Dim& b, const Message& message) {
  if (!(a == b)) throw DimMismatch(a, b, message());
}

/// Likewise for the first dimensions that differ; shapes of different rank are an invalid model.
template <typename Message>
void require_equal(const Shape& a, const Shape& b, const Message& message) {
  if (a.size() != b.size()) throw Error(ErrorCode::kInvalidModel, message());
  for (std::size_t d = 0; d < a.size(); ++d) require_equal(a[d], b[d], message);
}

/// Numpy broadcasting of two shapes. Symbolic dimensions broadcast with themselves and with 1;
/// two different symbolic dimensions throw DimMismatch.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace sinter::ir
