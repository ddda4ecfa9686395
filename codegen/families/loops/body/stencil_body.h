// SPDX-License-Identifier: Apache-2.0
// Bodies of stencil schedules. A block copies the slots that its windows read into shared memory,
// and what only taps determine (weights) beside them; a thread then walks the rows of its slots.
//
// Copying is bounded by the bytes of the input, of which neighbouring blocks read the border twice.
// Reducing is bounded by the multiply-adds: a row of slots, read from shared memory once, serves
// all of the thread's windows over it, and a row of taps all of its columns.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"
#include "codegen/families/loops/stencil/stencil_form.h"

namespace sinter::codegen {

class StencilBody {
 public:
  StencilBody(BodyState& state, StatementWriter& out);
  StencilBody(const StencilBody&) = delete;
  void reduce();
  void store();

 private:
  InstrSet of_level(const std::vector<std::size_t>& values) const;
  InstrSet needed_for(const InstrSet& values) const;
  StencilTile tile(std::size_t i) const;
  /// Names of the shared array of value `i`, at the part of the thread's plane: "s3 + plane * 96".
  std::string shared(std::size_t i, std::int64_t elements) const;
  void declare_shared();
  void declare_sums();
  void fill_slots();
  void fill_slots_of(std::size_t i);
  void fill_taps();
  void set_slot(const Overlap& overlap, const std::string& first, const std::string& slot);
  std::string slot_exists(const Overlap& overlap, const std::string& first, const std::string& slot,
                          std::int64_t results) const;
  void walk_rows();
  void reduce_rows();
  void accumulate();
  void open_results(bool along_rows);
  std::string result_exists(const Overlap& overlap, std::int64_t tile,
                            const std::string& index) const;
  std::string results_exist() const;
  /// Index of a thread's column: an element of its vector, or of a loop.
  const char* column() const { return s_.vector() > 1 ? "j" : "u"; }
  void set_columns(bool in_loop);

  BodyState& s_;
  StatementWriter& out_;
  const StencilParameters& own_;
  const StencilForm form_;
  const std::int64_t threads_y_;
  ThreadMapping elements_;  // the mapping without vectors, for one slot or tap at a time
  BodyState element_;
  StatementWriter element_out_;
  InstrSet reduces_;
  InstrSet done_;  // values that have a name
};

}  // namespace sinter::codegen
