// Values as expressions of device code.
#pragma once

#include <string>

#include "codegen/families/loops/body/body_state.h"

namespace sinter::codegen {

class ValueText {
 public:
  explicit ValueText(const BodyState& state) : s_(state), analysis_(state.analysis) {}

  /// The value of instruction `i`, in its compute type.
  std::string value(std::size_t i) const;
  /// The bits that a load reads: an element, or if `whole` a vector.
  std::string load(std::size_t i, bool whole) const;
  /// The one element that a load or store is about: "p0[i1 * 4]".
  std::string element(std::size_t i) const;
  /// Where an access of a vector begins: "p0 + i1 * 4".
  std::string place(std::size_t i) const;
  /// The stored value in the compute type of the buffer.
  std::string stored(std::size_t i) const;
  /// `value`, which store `i` writes, as memory has it.
  std::string narrowed(std::size_t i, const std::string& value) const;
  /// The vector that store `i` writes, of the values t<i>.
  std::string packed(std::size_t i) const;
  /// GPUs round to floats of 8 bits two at a time: to do so, `i` needs its operand of a vector's
  /// next element, too.
  bool is_rounded_in_pairs(std::size_t i) const;
  /// Holds in the threads that store `i`; empty: in all.
  std::string writes(std::size_t i) const;

  /// What is in memory, "half"; a vector of it, "Vec<half, 8>"; what is computed with, "float".
  std::string memory_type(std::size_t i) const { return storage_name(analysis_.memory_type(i)); }
  std::string vector_type(std::size_t i) const;
  std::string type(std::size_t i) const { return compute_name(analysis_.type_of(i)); }
  /// "Sum".
  std::string combine(std::size_t i) const;
  std::string identity(std::size_t i) const;

  /// Which of a preloaded load's vectors the loop is at.
  std::string raw_subscript(std::size_t i) const;
  /// What threads combine into: "a3[j]".
  std::string partial_sum(std::size_t i) const;
  std::string kept_name(std::size_t i) const;
  /// Of arrays with one for each: "[4]", or nothing for one.
  std::string vectors_size() const;
  std::string elements_size() const;

 private:
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
