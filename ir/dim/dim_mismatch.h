// SPDX-License-Identifier: Apache-2.0
// The error of two dimensions that must be equal.
#pragma once

#include <string>
#include <utility>

#include <sinter/error.h>

#include "ir/dim/dim.h"

namespace sinter::ir {

/// `a` and `b` must be equal and are not known to be. The importer, which knows the model's inputs,
/// may assume that they are (see its assumptions); elsewhere it is an error of `code`.
class DimMismatch : public Error {
 public:
  DimMismatch(Dim a, Dim b, std::string message, ErrorCode code = ErrorCode::kInvalidModel)
      : Error(code, std::move(message)), a_(std::move(a)), b_(std::move(b)) {}
  const Dim& a() const noexcept { return a_; }
  const Dim& b() const noexcept { return b_; }

 private:
  Dim a_, b_;
};

/// Throws DimMismatch with the text from `message()` unless a == b.
template <typename Message>
void require_equal(const Dim& a, const Dim& b, const Message& message) {
  if (!(a == b)) throw DimMismatch(a, b, message());
}

/// Likewise for the first differing dimensions; shapes of different rank are an invalid model.
template <typename Message>
void require_equal(const Shape& a, const Shape& b, const Message& message) {
  if (a.size() != b.size()) throw Error(ErrorCode::kInvalidModel, message());
  for (std::size_t d = 0; d < a.size(); ++d) require_equal(a[d], b[d], message);
}

/// Numpy broadcasting of two shapes. A symbolic dimension broadcasts with itself and with 1; two
/// different symbolic dimensions throw DimMismatch.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace sinter::ir
