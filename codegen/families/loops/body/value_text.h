// SPDX-License-Identifier: Apache-2.0
// Text of values, as expressions of device code.
#pragma once

#include <string>

#include "codegen/families/loops/body/body_state.h"

namespace sinter::codegen {

class ValueText {
 public:
  explicit ValueText(const BodyState& state) : s_(state), analysis_(state.analysis) {}

  /// The value of instruction `i` in its compute type.
  std::string value(std::size_t i) const;
  /// The bits that a load reads: one element, or a vector if `whole`.
  std::string load(std::size_t i, bool whole) const;
  /// `count` adjacent elements, or the access's fill where its guards do not hold:
  /// "load_if<8>(..)".
  std::string load_if(std::size_t i, int count) const;
  /// The element that a load or store accesses: "p0[i1 * 4]".
  std::string element(std::size_t i) const;
  /// Start address of a vector access: "p0 + i1 * 4".
  std::string address(std::size_t i) const;
  /// The stored value in the buffer's compute type.
  std::string stored(std::size_t i) const;
  /// `value`, written by store `i`, in its storage type.
  std::string narrowed(std::size_t i, const std::string& value) const;
  /// The vector that store `i` writes, from the values t<i>.
  std::string packed(std::size_t i) const;
  /// GPUs round pairs to fp8: rounding `i` then also needs its operand for the vector's next
  /// element.
  bool is_rounded_in_pairs(std::size_t i) const;
  /// Condition of the threads that store `i`; empty: all.
  std::string writes(std::size_t i) const;

  /// Types in memory, "half", as a vector, "Vec<half, 8>", and in computation, "float".
  std::string memory_type(std::size_t i) const { return storage_name(analysis_.memory_type(i)); }
  std::string vector_type(std::size_t i) const;
  std::string type(std::size_t i) const { return compute_name(analysis_.type_of(i)); }
  /// "Sum".
  std::string combine(std::size_t i) const;
  std::string identity(std::size_t i) const;

  /// Subscript of a preloaded load's current vector.
  std::string raw_subscript(std::size_t i) const;
  /// A thread's accumulator: "a3[j]".
  std::string partial_sum(std::size_t i) const;
  std::string kept_name(std::size_t i) const;
  /// Size of arrays with an entry for each vector: "[4]"; empty for one.
  std::string vectors_size() const;
  std::string elements_size() const;

 private:
  /// What a guarded load yields where its guards do not hold.
  std::string fill(std::size_t i) const;
  std::string loop_address(std::uint32_t access) const;
  bool is_kept_in_cache(std::size_t i) const;
  std::string widened(std::size_t i, const std::string& raw) const;
  std::string loaded(std::size_t i) const;
  std::string op(std::size_t i) const;
  bool must_not_contract(std::size_t i) const;

  const BodyState& s_;
  const ProgramAnalysis& analysis_;
};

}  // namespace sinter::codegen
