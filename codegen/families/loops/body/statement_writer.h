// SPDX-License-Identifier: Apache-2.0
// Writes the statements of a kernel's body, and its loops.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/families/loops/body/value_text.h"

namespace sinter::codegen {

class StatementWriter {
 public:
  explicit StatementWriter(BodyState& state) : text(state), s_(state), code_(state.code) {}

  /// Writes lines of a mapping; later unused ones are dropped.
  void declare_all(const std::vector<std::string>& lines);
  /// Opens the loop over a thread's vectors.
  void open_vectors();
  void close_vectors();
  /// Opens the loop over a vector's elements.
  void open_elements();
  void close_elements();

  /// Defines a name for the value of instruction `i`.
  void define(std::size_t i, const std::string& expression);
  void statement(std::size_t i);
  void declare_pointer(std::size_t i);
  /// Declares registers for `values`, with `slots` slots each (0: no slots).
  void keep(const InstrSet& values, std::int64_t slots);
  /// A loop that loads vectors: "r3[k] = ..", if the subscript is "[k]".
  void load_vectors(const std::vector<std::size_t>& loads, const std::string& subscript);

  /// Writes pass `stage` for a vector: values shared by all elements, values of each element, and
  /// stores.
  void write(const InstrSet& needed, int stage);

  const ValueText text;

 private:
  void running_value(std::size_t i);
  /// The condition of a store; empty: unconditional.
  std::string store_condition(std::size_t i) const;
  void store_scalar(std::size_t i);
  void vector_part(const InstrSet& needed, int stage);
  void element_part(const InstrSet& needed, int stage);
  /// One loop over a vector's elements. Values in `read_later` are kept for each element.
  void element_loop(std::span<const std::size_t> values, std::span<const std::size_t> sums,
                    const InstrSet& read_later);
  void vector_stores(const InstrSet& needed);

  BodyState& s_;
  CodeText& code_;
};

}  // namespace sinter::codegen
